#include <gtest/gtest.h>

#include <algorithm>

#include "paceline/core/collective/building/balanced_tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::broadcast_scatter_all_gather {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::broadcast, "scatter_all_gather");
}

TEST(ScatterAllGatherBroadcast, IsAScatterAndARingThatEndsAtTheRoot) {
  for (int ranks = 2; ranks <= kProofRanks; ++ranks) {
    for (const int root : {0, ranks - 1}) {
      const Proof proof = proof_of(algorithm(), ranks, root);
      EXPECT_EQ(proof.depth, tree_levels(ranks) + ranks - 1);
      EXPECT_EQ(proof.messages, ranks * (ranks - 1));
      EXPECT_EQ(proof.sent_chunks[static_cast<std::size_t>(root)], 2 * (ranks - 1));
      EXPECT_EQ(std::ranges::max(proof.sent_chunks), 2 * (ranks - 1));
    }
  }
}

}  // namespace
}  // namespace paceline::collective::broadcast_scatter_all_gather
