#include <gtest/gtest.h>

#include "paceline/core/collective/building/balanced_tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::reduce_scatter_direct {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::reduce_scatter, "direct");
}

TEST(DirectReduceScatter, IsThisPictureFor4Ranks) {
  EXPECT_EQ(to_string(algorithm().build({.ranks = 4, .rank = 1})),
            "round 0: send to 2: input(2)\n"
            "         recv from 2: scratch(2, 1)\n"
            "         send to 3: input(3)\n"
            "         recv from 3: scratch(3, 1)\n"
            "         send to 0: input(0)\n"
            "         recv from 0: scratch(0, 1)\n"
            "round 1: reduce: scratch(0, 1) = scratch(0, 1) OP input(1)\n"
            "         reduce: scratch(2, 1) = scratch(2, 1) OP scratch(3, 1)\n"
            "round 2: reduce: output(1) = scratch(0, 1) OP scratch(2, 1), complete\n");
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

TEST(DirectReduceScatter, AloneCopies) {
  EXPECT_EQ(algorithm().build({}),
            (Program{.chunks = 1, .rounds = {{completing(copy(input(0), output(0)))}}}));
}

}  // namespace
}  // namespace paceline::collective::reduce_scatter_direct
