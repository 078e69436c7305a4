#include <gtest/gtest.h>

#include "paceline/core/collective/building/balanced_tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::reduce_linear {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::reduce, "linear");
}

TEST(LinearReduce, IsThisPictureFor4Ranks) {
  EXPECT_EQ(to_string(algorithm().build({.ranks = 4, .rank = 0})),
            "round 0: recv from 1: scratch(1, 0)\n"
            "         recv from 2: scratch(2, 0)\n"
            "         recv from 3: scratch(3, 0)\n"
            "round 1: reduce: scratch(1, 0) = input(0) OP scratch(1, 0)\n"
            "         reduce: scratch(2, 0) = scratch(2, 0) OP scratch(3, 0)\n"
            "round 2: reduce: output(0) = scratch(1, 0) OP scratch(2, 0), complete\n");
  EXPECT_EQ(to_string(algorithm().build({.ranks = 4, .rank = 3})),
            "round 0: send to 0: input(0)\n");
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
