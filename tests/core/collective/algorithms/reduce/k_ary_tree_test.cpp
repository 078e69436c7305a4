#include <gtest/gtest.h>

#include "paceline/core/collective/building/tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::reduce_k_ary_tree {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::reduce, "k_ary_tree");
}

TEST(KAryTreeReduce, TakesTheHeightOfTheTreeAndTheBufferFromEachRankButTheRoot) {
  for (const int radix : {1, 2, 3, 4, 8}) {
    for (int ranks = 1; ranks <= kProofRanks; ++ranks) {
      const int root = ranks / 3;
      const Shape shape{.ranks = ranks, .root = root, .radix = radix};
      const Proof proof = proof_of(algorithm(), shape);
      std::vector<long> wanted(static_cast<std::size_t>(ranks), 1);
      wanted[static_cast<std::size_t>(root)] = 0;
      EXPECT_EQ(proof.sent_chunks, wanted);
      EXPECT_EQ(proof.depth, k_ary_tree(ranks, radix).height());
    }
  }
}

TEST(KAryTreeReduce, SumsAsTheAllReduceDoesFromTheRootOn) {
  EXPECT_EQ(proof_of(algorithm(), 6, 0).tree,
            proof_of(built_in(Operation::all_reduce, "k_ary_tree"), 6).tree);
  EXPECT_EQ(proof_of(algorithm(), 6, 1).tree, "((1+((2+4)+5))+(3+0))");
}

}  // namespace
}  // namespace paceline::collective::reduce_k_ary_tree
