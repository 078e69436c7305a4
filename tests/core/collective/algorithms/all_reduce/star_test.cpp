#include <gtest/gtest.h>

#include "tests/core/collective/programs.h"

namespace paceline::collective::all_reduce_star {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::all_reduce, "star");
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

}  // namespace
}  // namespace paceline::collective::all_reduce_star
