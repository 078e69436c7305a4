#include <gtest/gtest.h>

#include "paceline/core/collective/building/tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::all_reduce_k_ary_tree {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::all_reduce, "k_ary_tree");
}

TEST(KAryTreeAllReduce, TakesTwiceTheHeightOfTheTreeAndTheBufferOncePerEdge) {
  for (const int radix : {1, 2, 3, 4, 8}) {
    for (int ranks = 1; ranks <= kProofRanks; ++ranks) {
      const Proof proof = proof_of(algorithm(), Shape{.ranks = ranks, .radix = radix});
      const Tree tree = k_ary_tree(ranks, radix);
      EXPECT_EQ(proof.depth, 2 * tree.height());
      EXPECT_EQ(proof.messages, 2 * (ranks - 1));
      for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
        const long edges = (rank > 0 ? 1 : 0) + static_cast<long>(tree.children[rank].size());
        EXPECT_EQ(proof.sent_chunks[rank], edges);
        EXPECT_LE(edges, radix + 1);
      }
    }
  }
}

TEST(KAryTreeAllReduce, SumsTheOwnPartFirstThenTheChildren) {
  EXPECT_EQ(proof_of(algorithm(), 6).tree, "((0+((1+3)+4))+(2+5))");
  EXPECT_EQ(proof_of(algorithm(), Shape{.ranks = 4, .radix = 1}).tree, "(0+(1+(2+3)))");
  EXPECT_EQ(proof_of(algorithm(), Shape{.ranks = 4, .radix = 3}).tree, "(((0+1)+2)+3)");
  EXPECT_EQ(algorithm().determinism, DeterminismClass::d3);
}

TEST(KAryTreeAllReduce, NeedsAtLeastOneChild) {
  EXPECT_FALSE(algorithm().fits({.ranks = 4, .radix = 0}));
}

}  // namespace
}  // namespace paceline::collective::all_reduce_k_ary_tree
