#include <gtest/gtest.h>

#include <algorithm>

#include "paceline/core/collective/building/balanced_tree.h"
#include "paceline/core/collective/program/cells.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::all_reduce_double_binary_tree {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::all_reduce, "double_binary_tree");
}

TEST(DoubleBinaryTreeAllReduce, IsThisPictureFor4Ranks) {
  EXPECT_EQ(to_string(algorithm().build({.ranks = 4, .rank = 2})),
            "round 0: recv_reduce from 1: scratch(1, 0) = input(0) OP received\n"
            "         recv from 3: scratch(0, 0)\n"
            "         send to 1: input(1)\n"
            "round 1: reduce: scratch(1, 0) = scratch(1, 0) OP scratch(0, 0)\n"
            "round 2: send to 0: scratch(1, 0)\n"
            "round 3: recv from 0: output(0)\n"
            "round 4: send to 1: output(0)\n"
            "         send to 3: output(0)\n"
            "         recv from 1: output(1)\n");
}

TEST(DoubleBinaryTreeAllReduce, TakesTwiceTheHeightAndNoRankMoreThanTwiceTheBuffer) {
  for (int ranks = 2; ranks <= kProofRanks; ++ranks) {
    const Proof proof = proof_of(algorithm(), ranks);
    EXPECT_EQ(proof.depth, 2 * tree_levels(ranks));
    EXPECT_EQ(chunks_sent(proof), 4 * (ranks - 1));
    EXPECT_LE(proof.messages, 4 * (ranks - 1));
    // In halves of the buffer: all of it, one and a half, twice.
    EXPECT_EQ(std::ranges::max(proof.sent_chunks), std::min(ranks, 4));
  }
}

TEST(DoubleBinaryTreeAllReduce, HasAtMostFourMessagesEachWayInARound) {
  for (int ranks = 1; ranks <= kProofRanks; ++ranks) {
    for (const Program& program : programs_of(algorithm(), ranks)) {
      for (const Round& round : program.rounds) {
        EXPECT_LE(std::ranges::count_if(round, is_send), 4);
        EXPECT_LE(std::ranges::count_if(round, is_recv), 4);
      }
    }
  }
}

TEST(DoubleBinaryTreeAllReduce, SumsEachHalfByItsOwnTree) {
  EXPECT_EQ(proof_of(algorithm(), 4).tree, "(0+((2+1)+3))");
  EXPECT_EQ(algorithm().determinism, DeterminismClass::d2);
}

TEST(DoubleBinaryTreeAllReduce, AloneCopies) {
  EXPECT_EQ(algorithm().build({}), (Program{.chunks = 2,
                                            .rounds = {{completing(copy(input(0), output(0))),
                                                        completing(copy(input(1), output(1)))}}}));
}

}  // namespace
}  // namespace paceline::collective::all_reduce_double_binary_tree
