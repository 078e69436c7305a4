#include <gtest/gtest.h>

#include "paceline/core/collective/building/balanced_tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::all_gather_recursive_doubling {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::all_gather, "recursive_doubling");
}

TEST(RecursiveDoublingAllGather, TakesTheFewestRoundsAndTheFewestChunks) {
  for (const int ranks : rank_counts(algorithm(), 2 * kProofRanks)) {
    const Proof proof = proof_of(algorithm(), ranks);
    EXPECT_EQ(proof.depth, tree_levels(ranks));
    EXPECT_EQ(proof.messages, ranks * tree_levels(ranks));
    EXPECT_EQ(proof.sent_chunks, std::vector<long>(static_cast<std::size_t>(ranks), ranks - 1));
  }
}

TEST(RecursiveDoublingAllGather, FitsPowersOfTwoAlone) {
  EXPECT_EQ(rank_counts(algorithm(), 64), (std::vector{1, 2, 4, 8, 16, 32, 64}));
}

}  // namespace
}  // namespace paceline::collective::all_gather_recursive_doubling
