#include <gtest/gtest.h>

#include "paceline/core/collective/building/balanced_tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::broadcast_double_binary_tree {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::broadcast, "double_binary_tree");
}

TEST(DoubleBinaryTreeBroadcast, TakesTheHeightOfTheTreesAndNoRankSendsMoreThanTheBuffer) {
  for (int ranks = 2; ranks <= kProofRanks; ++ranks) {
    for (const int root : {0, ranks / 2, ranks - 1}) {
      const Proof proof = proof_of(algorithm(), ranks, root);
      EXPECT_EQ(proof.depth, 1 + tree_levels(ranks - 1));
      EXPECT_EQ(chunks_sent(proof), 2 * (ranks - 1));
      for (const long sent : proof.sent_chunks) EXPECT_LE(sent, 2) << "halves of the buffer";
      EXPECT_EQ(proof.sent_chunks[static_cast<std::size_t>(root)], 2);
    }
  }
}

}  // namespace
}  // namespace paceline::collective::broadcast_double_binary_tree
