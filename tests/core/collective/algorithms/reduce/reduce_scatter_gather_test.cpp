#include <gtest/gtest.h>

#include "paceline/core/collective/building/balanced_tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::reduce_reduce_scatter_gather {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::reduce, "reduce_scatter_gather");
}

TEST(ReduceScatterGatherReduce, TakesTwiceTheFewestRoundsAndTheBufferIntoTheRootTwiceAtMost) {
  for (int ranks = 2; ranks <= kProofRanks; ++ranks) {
    for (const int root : {0, ranks / 2}) {
      const Proof proof = proof_of(algorithm(), ranks, root);
      EXPECT_EQ(proof.depth, 2 * tree_levels(ranks));
      EXPECT_EQ(proof.messages, ranks * tree_levels(ranks) + ranks - 1);
      EXPECT_EQ(proof.sent_chunks[static_cast<std::size_t>(root)], ranks - 1);
    }
  }
}

TEST(ReduceScatterGatherReduce, SumsAsTheReduceScatterDoes) {
  for (const int root : {0, 3}) {
    EXPECT_EQ(proof_of(algorithm(), 5, root).tree,
              proof_of(built_in(Operation::reduce_scatter, "circulant"), 5).tree);
  }
  EXPECT_EQ(algorithm().determinism, DeterminismClass::d2);
}

}  // namespace
}  // namespace paceline::collective::reduce_reduce_scatter_gather
