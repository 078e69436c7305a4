#include "paceline/core/collective/building/binomial_gather.h"

#include <gtest/gtest.h>

namespace paceline::collective {
namespace {

TEST(BinomialGatherTree, HandsBlocksOfChunksOn) {
  EXPECT_EQ(to_string(binomial_gather({.ranks = 7, .rank = 4})),
            "round 0: recv from 5: output(5)\n"
            "round 1: recv from 6: output(6)\n"
            "round 2: send to 0: input(4)\n"
            "         send to 0: output(5)\n"
            "         send to 0: output(6)\n");
}

TEST(BinomialGatherTree, TheRootTakesEveryOtherChunkOnce) {
  for (int ranks = 1; ranks <= 33; ++ranks) {
    for (int root = 0; root < ranks; ++root) {
      std::vector<int> taken(static_cast<std::size_t>(ranks));
      for (const Round& round :
           binomial_gather({.ranks = ranks, .rank = root, .root = root}).rounds) {
        for (const Step& step : round) ++taken[static_cast<std::size_t>(step.target.chunk)];
      }
      EXPECT_EQ(taken, std::vector<int>(static_cast<std::size_t>(ranks), 1));
    }
  }
}

}  // namespace
}  // namespace paceline::collective
