#include <gtest/gtest.h>

#include "paceline/core/collective/building/balanced_tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::reduce_linear {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::reduce, "linear");
}

TEST(LinearReduce, SumsByTheBalancedTreeInRankOrderWhateverTheRoot) {
  for (int root = 0; root < 7; ++root) {
    const Proof proof = proof_of(algorithm(), 7, root);
    EXPECT_EQ(proof.tree, "(((0+1)+(2+3))+((4+5)+6))");
    EXPECT_EQ(proof.messages, 6);
    EXPECT_EQ(proof.rounds, 1 + tree_levels(7));
  }
}

}  // namespace
}  // namespace paceline::collective::reduce_linear
