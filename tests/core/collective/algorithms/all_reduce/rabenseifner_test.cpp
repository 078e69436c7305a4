#include <gtest/gtest.h>

#include <bit>

#include "paceline/core/collective/building/balanced_tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::all_reduce_rabenseifner {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::all_reduce, "rabenseifner");
}

int power_below(int ranks) {
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)));
}

TEST(RabenseifnerAllReduce, IsAPowerOfTwoAndWhatTheRanksBeyondItHandOver) {
  for (int ranks = 1; ranks <= kProofRanks; ++ranks) {
    const Proof proof = proof_of(algorithm(), ranks);
    const int power = power_below(ranks), extra = ranks - power;
    EXPECT_EQ(proof.depth, 2 * tree_levels(power) + (extra > 0 ? 2 : 0));
    EXPECT_EQ(proof.messages, power * 2 * tree_levels(power) + 2 * extra);
    for (int rank = 0; rank < ranks; ++rank) {
      const bool is_folded = rank < 2 * extra, survives = !is_folded || rank % 2 == 1;
      EXPECT_EQ(proof.sent_chunks[static_cast<std::size_t>(rank)],
                (survives ? 2 * (power - 1) : 0) + (is_folded ? power : 0));
    }
    EXPECT_EQ(algorithm().build({.ranks = ranks}).scratch_places, 0);
  }
}

TEST(RabenseifnerAllReduce, IsTheBalancedTreeWhereTheOnesOfTheCountFormOneRun) {
  std::vector<int> balanced;
  for (int ranks = 1; ranks <= kProofRanks; ++ranks) {
    const bool is_balanced = proof_of(algorithm(), ranks).balanced_tree;
    if (is_balanced) balanced.push_back(ranks);
    EXPECT_EQ(is_balanced, algorithm().has_balanced_tree({.ranks = ranks}));
  }
  std::vector<int> one_run;
  for (const int ranks :
       {1, 2, 3, 4, 6, 7, 8, 12, 14, 15, 16, 24, 28, 30, 31, 32, 48, 56, 60, 62, 63, 64}) {
    if (ranks <= kProofRanks) one_run.push_back(ranks);
  }
  EXPECT_EQ(balanced, one_run);
  EXPECT_EQ(proof_of(algorithm(), 5).tree, "(((0+1)+2)+(3+4))");
}

}  // namespace
}  // namespace paceline::collective::all_reduce_rabenseifner
