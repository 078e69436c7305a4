#include <gtest/gtest.h>

#include "paceline/core/collective/building/balanced_tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::all_reduce_binomial {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::all_reduce, "binomial");
}

TEST(BinomialAllReduce, TakesTwiceTheHeightOfTheTreeAndNoRankSendsMoreThanThat) {
  for (int ranks = 2; ranks <= 33; ++ranks) {
    const Proof proof = proof_of(algorithm(), ranks);
    EXPECT_EQ(proof.rounds, 2 * tree_levels(ranks));
    EXPECT_EQ(proof.messages, 2 * (ranks - 1));
    EXPECT_EQ(proof.sent_chunks[0], tree_levels(ranks)) << "the result to each child of the root";
    for (const long sent : proof.sent_chunks) EXPECT_LE(sent, tree_levels(ranks));
    EXPECT_EQ(algorithm().build({.ranks = ranks}).chunks, 1);
  }
}

TEST(BinomialAllReduce, SumsByTheBalancedTreeInRankOrder) {
  EXPECT_EQ(proof_of(algorithm(), 4).tree, "((0+1)+(2+3))");
  EXPECT_EQ(proof_of(algorithm(), 5).tree, "(((0+1)+(2+3))+4)");
  EXPECT_TRUE(proof_of(algorithm(), 1000).balanced_tree);
}

}  // namespace
}  // namespace paceline::collective::all_reduce_binomial
