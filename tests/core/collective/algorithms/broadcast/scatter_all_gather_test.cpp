#include <gtest/gtest.h>

#include <algorithm>

#include "paceline/core/collective/building/balanced_tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::broadcast_scatter_all_gather {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::broadcast, "scatter_all_gather");
}

TEST(ScatterAllGatherBroadcast, IsThisPictureFor3RanksAndRoot1) {
  const auto programs = programs_of(algorithm(), 3, 1);
  EXPECT_EQ(to_string(programs[1]),
            "round 0: send to 0: input(0)\n"
            "round 1: send to 2: input(2)\n"
            "round 2: send to 2: input(1)\n"
            "round 3: send to 2: input(0)\n"
            "         copy: output(0) = input(0)\n"
            "         copy: output(1) = input(1)\n"
            "         copy: output(2) = input(2)\n");
  EXPECT_EQ(to_string(programs[0]),
            "round 0: recv from 1: output(0)\n"
            "round 1: recv from 2: output(2)\n"
            "round 2: recv from 2: output(1)\n");
}

TEST(ScatterAllGatherBroadcast, IsAScatterAndARingThatEndsAtTheRoot) {
  for (int ranks = 2; ranks <= kProofRanks; ++ranks) {
    for (const int root : {0, ranks - 1}) {
      const Proof proof = proof_of(algorithm(), ranks, root);
      EXPECT_EQ(proof.depth, tree_levels(ranks) + ranks - 1);
      EXPECT_EQ(proof.messages, ranks * (ranks - 1));
      EXPECT_EQ(proof.sent_chunks[static_cast<std::size_t>(root)], 2 * (ranks - 1));
      EXPECT_EQ(std::ranges::max(proof.sent_chunks), 2 * (ranks - 1));
    }
  }
}

TEST(ScatterAllGatherBroadcast, AloneCopies) {
  EXPECT_EQ(algorithm().build({}), (Program{.chunks = 1, .rounds = {{copy(input(0), output(0))}}}));
}

}  // namespace
}  // namespace paceline::collective::broadcast_scatter_all_gather
