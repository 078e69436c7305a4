#include <gtest/gtest.h>

#include "paceline/core/collective/building/balanced_tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::broadcast_double_binary_tree {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::broadcast, "double_binary_tree");
}

TEST(DoubleBinaryTreeBroadcast, IsThisPictureFor5Ranks) {
  const auto programs = programs_of(algorithm(), 5);
  EXPECT_EQ(to_string(programs[0]),
            "round 0: send to 1: input(0)\n"
            "         send to 4: input(1)\n"
            "         copy: output(0) = input(0)\n"
            "         copy: output(1) = input(1)\n");
  EXPECT_EQ(to_string(programs[3]),
            "round 0: recv from 1: output(0)\n"
            "round 1: send to 2: output(0)\n"
            "         send to 4: output(0)\n"
            "         recv from 2: output(1)\n");
}

TEST(DoubleBinaryTreeBroadcast, TakesTheHeightOfTheTreesAndNoRankSendsMoreThanTheBuffer) {
  for (int ranks = 2; ranks <= kProofRanks; ++ranks) {
    for (const int root : {0, ranks / 2, ranks - 1}) {
      const Proof proof = proof_of(algorithm(), ranks, root);
      EXPECT_EQ(proof.depth, 1 + tree_levels(ranks - 1));
      EXPECT_EQ(chunks_sent(proof), 2 * (ranks - 1));
      for (const long sent : proof.sent_chunks) EXPECT_LE(sent, 2) << "halves of the buffer";
      EXPECT_EQ(proof.sent_chunks[static_cast<std::size_t>(root)], 2);
    }
  }
}

TEST(DoubleBinaryTreeBroadcast, AloneCopies) {
  EXPECT_EQ(
      algorithm().build({}),
      (Program{.chunks = 2, .rounds = {{copy(input(0), output(0)), copy(input(1), output(1))}}}));
}

}  // namespace
}  // namespace paceline::collective::broadcast_double_binary_tree
