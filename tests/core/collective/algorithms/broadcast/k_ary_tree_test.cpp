#include <gtest/gtest.h>

#include "paceline/core/collective/building/tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::broadcast_k_ary_tree {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::broadcast, "k_ary_tree");
}

TEST(KAryTreeBroadcast, TakesTheHeightOfTheTreeAndTheBufferOncePerEdge) {
  for (const int radix : {1, 2, 3, 4, 8}) {
    for (int ranks = 1; ranks <= kProofRanks; ++ranks) {
      const int root = ranks / 3;
      const Shape shape{.ranks = ranks, .root = root, .radix = radix};
      const Proof proof = proof_of(algorithm(), shape);
      EXPECT_EQ(proof.depth, k_ary_tree(ranks, radix).height());
      EXPECT_EQ(proof.messages, ranks - 1);
      for (const long sent : proof.sent_chunks) EXPECT_LE(sent, radix);
    }
  }
}

TEST(KAryTreeBroadcast, NeedsAtLeastOneChild) {
  EXPECT_FALSE(algorithm().fits({.ranks = 4, .radix = 0}));
}

}  // namespace
}  // namespace paceline::collective::broadcast_k_ary_tree
