#include <gtest/gtest.h>

#include "paceline/core/collective/building/balanced_tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::reduce_scatter_recursive_halving {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::reduce_scatter, "recursive_halving");
}

TEST(RecursiveHalvingReduceScatter, TakesTheFewestRoundsAndTheFewestChunks) {
  for (const int ranks : rank_counts(algorithm(), 2 * kProofRanks)) {
    const Proof proof = proof_of(algorithm(), ranks);
    EXPECT_EQ(proof.depth, tree_levels(ranks));
    EXPECT_EQ(proof.messages, ranks * tree_levels(ranks));
    EXPECT_EQ(proof.sent_chunks, std::vector<long>(static_cast<std::size_t>(ranks), ranks - 1));
  }
}

TEST(RecursiveHalvingReduceScatter, FitsPowersOfTwoAlone) {
  EXPECT_EQ(rank_counts(algorithm(), 64), (std::vector{1, 2, 4, 8, 16, 32, 64}));
}

TEST(RecursiveHalvingReduceScatter, SumsEveryChunkByTheSameTreeWhichIsNotTheBalancedOne) {
  EXPECT_EQ(proof_of(algorithm(), 4).tree, "((0+2)+(1+3))");
  EXPECT_EQ(algorithm().determinism, DeterminismClass::d3);
}

}  // namespace
}  // namespace paceline::collective::reduce_scatter_recursive_halving
