#include <gtest/gtest.h>

#include "paceline/core/collective/building/balanced_tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::all_reduce_direct {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::all_reduce, "direct");
}

TEST(DirectAllReduce, Sends2TimesNMinus1ChunksFromEachRank) {
  for (int ranks = 2; ranks <= 33; ++ranks) {
    const Proof proof = proof_of(algorithm(), ranks);
    EXPECT_EQ(proof.sent_chunks,
              std::vector<long>(static_cast<std::size_t>(ranks), 2 * (ranks - 1)));
    EXPECT_EQ(proof.rounds, 2 + tree_levels(ranks));
    EXPECT_EQ(algorithm().build({.ranks = ranks}).chunks, ranks);
  }
}

TEST(DirectAllReduce, SumsByTheBalancedTreeInRankOrder) {
  EXPECT_EQ(proof_of(algorithm(), 4).tree, "((0+1)+(2+3))");
  EXPECT_EQ(proof_of(algorithm(), 7).tree, "(((0+1)+(2+3))+((4+5)+6))");
  EXPECT_TRUE(proof_of(algorithm(), 100).balanced_tree);
}

TEST(DirectAllReduce, NoTwoRanksStartWithTheSamePeer) {
  for (const Program& program : programs_of(algorithm(), 5)) {
    for (const std::size_t round : {std::size_t{0}, program.rounds.size() - 1}) {
      const int first = program.rounds[round][0].peer, own = program.rounds.back()[0].source.chunk;
      EXPECT_EQ(first, (own + 1) % 5);
    }
  }
}

}  // namespace
}  // namespace paceline::collective::all_reduce_direct
