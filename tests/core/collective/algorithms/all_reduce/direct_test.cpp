#include <gtest/gtest.h>

#include "paceline/core/collective/building/balanced_tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::all_reduce_direct {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::all_reduce, "direct");
}

TEST(DirectAllReduce, IsThisPictureFor4Ranks) {
  EXPECT_EQ(to_string(algorithm().build({.ranks = 4, .rank = 1})),
            "round 0: send to 2: input(2)\n"
            "         recv from 2: scratch(2, 1)\n"
            "         send to 3: input(3)\n"
            "         recv from 3: scratch(3, 1)\n"
            "         send to 0: input(0)\n"
            "         recv from 0: scratch(0, 1)\n"
            "round 1: reduce: scratch(0, 1) = scratch(0, 1) OP input(1)\n"
            "         reduce: scratch(2, 1) = scratch(2, 1) OP scratch(3, 1)\n"
            "round 2: reduce: output(1) = scratch(0, 1) OP scratch(2, 1), complete\n"
            "round 3: store to 2: output(1) into output(1)\n"
            "         recv from 2: output(2)\n"
            "         store to 3: output(1) into output(1)\n"
            "         recv from 3: output(3)\n"
            "         store to 0: output(1) into output(1)\n"
            "         recv from 0: output(0)\n");
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

TEST(DirectAllReduce, AloneCopies) {
  EXPECT_EQ(algorithm().build({}),
            (Program{.chunks = 1, .rounds = {{completing(copy(input(0), output(0)))}}}));
}

}  // namespace
}  // namespace paceline::collective::all_reduce_direct
