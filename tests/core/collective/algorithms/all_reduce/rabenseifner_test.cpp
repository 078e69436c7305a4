#include <gtest/gtest.h>

#include <bit>

#include "paceline/core/collective/building/balanced_tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::all_reduce_rabenseifner {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::all_reduce, "rabenseifner");
}

int power_below(int ranks) {
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)));
}

TEST(RabenseifnerAllReduce, IsThisPictureFor4And3Ranks) {
  EXPECT_EQ(to_string(algorithm().build({.ranks = 4, .rank = 1})),
            "round 0: send to 0: input(0)\n"
            "         send to 0: input(1)\n"
            "         recv_reduce from 0: output(2) = received OP input(2)\n"
            "         recv_reduce from 0: output(3) = received OP input(3)\n"
            "round 1: send to 3: output(3)\n"
            "         recv_reduce from 3: output(2) = output(2) OP received, complete\n"
            "round 2: recv from 3: output(3)\n"
            "         send to 3: output(2)\n"
            "round 3: recv from 0: output(0)\n"
            "         recv from 0: output(1)\n"
            "         send to 0: output(2)\n"
            "         send to 0: output(3)\n");
  EXPECT_EQ(to_string(algorithm().build({.ranks = 3, .rank = 0})),
            "round 0: send to 1: input(0)\n"
            "         send to 1: input(1)\n"
            "round 1: recv from 1: output(0)\n"
            "         recv from 1: output(1)\n");
}

TEST(RabenseifnerAllReduce, IsAPowerOfTwoAndWhatTheRanksBeyondItHandOver) {
  for (int ranks = 1; ranks <= kProofRanks; ++ranks) {
    const Proof proof = proof_of(algorithm(), ranks);
    const int power = power_below(ranks), extra = ranks - power;
    EXPECT_EQ(proof.depth, 2 * tree_levels(power) + (extra > 0 ? 2 : 0));
    EXPECT_EQ(proof.messages, power * 2 * tree_levels(power) + 2 * extra);
    for (int rank = 0; rank < ranks; ++rank) {
      const bool is_folded = rank < 2 * extra, survives = !is_folded || rank % 2 == 1;
      EXPECT_EQ(proof.sent_chunks[static_cast<std::size_t>(rank)],
                (survives ? 2 * (power - 1) : 0) + (is_folded ? power : 0));
    }
    EXPECT_EQ(algorithm().build({.ranks = ranks}).scratch_places, 0);
  }
}

TEST(RabenseifnerAllReduce, IsTheBalancedTreeWhereTheOnesOfTheCountFormOneRun) {
  std::vector<int> balanced;
  for (int ranks = 1; ranks <= kProofRanks; ++ranks) {
    const bool is_balanced = proof_of(algorithm(), ranks).balanced_tree;
    if (is_balanced) balanced.push_back(ranks);
    EXPECT_EQ(is_balanced, algorithm().has_balanced_tree({.ranks = ranks}));
  }
  std::vector<int> one_run;
  for (const int ranks :
       {1, 2, 3, 4, 6, 7, 8, 12, 14, 15, 16, 24, 28, 30, 31, 32, 48, 56, 60, 62, 63, 64}) {
    if (ranks <= kProofRanks) one_run.push_back(ranks);
  }
  EXPECT_EQ(balanced, one_run);
  EXPECT_EQ(proof_of(algorithm(), 5).tree, "(((0+1)+2)+(3+4))");
}

TEST(RabenseifnerAllReduce, AloneCopies) {
  EXPECT_EQ(algorithm().build({}),
            (Program{.chunks = 1, .rounds = {{completing(copy(input(0), output(0)))}}}));
}

}  // namespace
}  // namespace paceline::collective::all_reduce_rabenseifner
