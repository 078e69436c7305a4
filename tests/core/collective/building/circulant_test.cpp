#include "paceline/core/collective/building/circulant.h"

#include <gtest/gtest.h>

#include "paceline/core/collective/program/composition.h"

namespace paceline::collective {
namespace {

TEST(Circulant, IsThisPictureFor5Ranks) {
  EXPECT_EQ(to_string(circulant_reduce_scatter({.ranks = 5, .rank = 0})),
            "round 0: send to 3: input(3)\n"
            "         send to 3: input(4)\n"
            "         recv_reduce from 2: output(0) = input(0) OP received\n"
            "         recv_reduce from 2: output(1) = input(1) OP received\n"
            "round 1: send to 2: input(2)\n"
            "         recv_reduce from 3: output(0) = output(0) OP received\n"
            "round 2: send to 1: output(1)\n"
            "         recv_reduce from 4: output(0) = output(0) OP received, complete\n");
}

TEST(Circulant, EveryRankDoesTheSameTurnedRound) {
  for (int ranks = 2; ranks <= 17; ++ranks) {
    const Program first = circulant_reduce_scatter({.ranks = ranks, .rank = 0});
    for (int by = 1; by < ranks; ++by) {
      CompositionPart turned{{}, {}, ranks};
      for (int i = 0; i < ranks; ++i) {
        turned.ranks.push_back((i + by) % ranks);
        turned.chunks.push_back({(i + by) % ranks});
      }
      EXPECT_EQ(on(turned, first), circulant_reduce_scatter({.ranks = ranks, .rank = by}));
    }
  }
}

}  // namespace
}  // namespace paceline::collective
