#include <gtest/gtest.h>

#include "paceline/core/collective/building/balanced_tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::all_reduce_binomial {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::all_reduce, "binomial");
}

TEST(BinomialAllReduce, IsThisPictureFor4Ranks) {
  const auto programs = programs_of(algorithm(), 4);
  EXPECT_EQ(to_string(programs[0]),
            "round 0: recv_reduce from 1: output(0) = input(0) OP received\n"
            "round 1: recv_reduce from 2: output(0) = output(0) OP received, complete\n"
            "round 2: send to 2: output(0)\n"
            "round 3: send to 1: output(0)\n");
  EXPECT_EQ(to_string(programs[1]),
            "round 0: send to 0: input(0)\n"
            "round 1: recv from 0: output(0)\n");
  EXPECT_EQ(to_string(programs[2]),
            "round 0: recv_reduce from 3: output(0) = input(0) OP received\n"
            "round 1: send to 0: output(0)\n"
            "round 2: recv from 0: output(0)\n"
            "round 3: send to 3: output(0)\n");
  EXPECT_EQ(to_string(programs[3]),
            "round 0: send to 2: input(0)\n"
            "round 1: recv from 2: output(0)\n");
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

TEST(BinomialAllReduce, AloneCopies) {
  EXPECT_EQ(algorithm().build({}),
            (Program{.chunks = 1, .rounds = {{completing(copy(input(0), output(0)))}}}));
}

}  // namespace
}  // namespace paceline::collective::all_reduce_binomial
