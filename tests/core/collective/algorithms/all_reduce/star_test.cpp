#include <gtest/gtest.h>

#include "tests/core/collective/programs.h"

namespace paceline::collective::all_reduce_star {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::all_reduce, "star");
}

TEST(StarAllReduce, IsThisPictureFor3Ranks) {
  EXPECT_EQ(to_string(algorithm().build({.ranks = 3, .rank = 0})),
            "round 0: recv from 1: scratch(1, 0)\n"
            "         recv from 2: scratch(2, 0)\n"
            "round 1: reduce: scratch(1, 0) = input(0) OP scratch(1, 0)\n"
            "round 2: reduce: output(0) = scratch(1, 0) OP scratch(2, 0), complete\n"
            "round 3: send to 1: output(0)\n"
            "         send to 2: output(0)\n");
  EXPECT_EQ(to_string(algorithm().build({.ranks = 3, .rank = 2})),
            "round 0: send to 0: input(0)\n"
            "round 1: recv from 0: output(0)\n");
}

TEST(StarAllReduce, SendsTheBufferTwiceBetweenRank0AndEveryOther) {
  for (int ranks = 2; ranks <= kProofRanks; ++ranks) {
    const Proof proof = proof_of(algorithm(), ranks);
    std::vector<long> wanted(static_cast<std::size_t>(ranks), 1);
    wanted[0] = ranks - 1;
    EXPECT_EQ(proof.sent_chunks, wanted);
    EXPECT_EQ(proof.messages, 2 * (ranks - 1));
    EXPECT_EQ(proof.depth, 2);
  }
}

TEST(StarAllReduce, SumsByTheBalancedTreeInRankOrder) {
  EXPECT_EQ(proof_of(algorithm(), 7).tree, "(((0+1)+(2+3))+((4+5)+6))");
}

TEST(StarAllReduce, AloneCopies) {
  EXPECT_EQ(algorithm().build({}),
            (Program{.chunks = 1, .rounds = {{completing(copy(input(0), output(0)))}}}));
}

}  // namespace
}  // namespace paceline::collective::all_reduce_star
