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

}  // namespace
}  // namespace paceline::collective::all_reduce_double_binary_tree
