#include <gtest/gtest.h>

#include "paceline/core/collective/building/balanced_tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::reduce_scatter_direct {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::reduce_scatter, "direct");
}

TEST(DirectReduceScatter, SendsNMinus1ChunksFromEachRankInOneRound) {
  for (int ranks = 2; ranks <= 33; ++ranks) {
    const Proof proof = proof_of(algorithm(), ranks);
    EXPECT_EQ(proof.sent_chunks, std::vector<long>(static_cast<std::size_t>(ranks), ranks - 1));
    EXPECT_EQ(proof.rounds, 1 + tree_levels(ranks));
  }
}

TEST(DirectReduceScatter, SumsByTheBalancedTreeInRankOrder) {
  EXPECT_EQ(proof_of(algorithm(), 7).tree, "(((0+1)+(2+3))+((4+5)+6))");
  EXPECT_TRUE(proof_of(algorithm(), 100).balanced_tree);
}

}  // namespace
}  // namespace paceline::collective::reduce_scatter_direct
