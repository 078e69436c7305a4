#include <gtest/gtest.h>

#include "paceline/core/collective/building/balanced_tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::scatter_binomial {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::scatter, "binomial");
}

TEST(BinomialScatter, IsThisPictureFor4RanksAndRoot1) {
  const auto programs = programs_of(algorithm(), 4, 1);
  EXPECT_EQ(to_string(programs[1]),
            "round 0: send to 3: input(3)\n"
            "         send to 3: input(0)\n"
            "round 1: send to 2: input(2)\n"
            "         copy: output(1) = input(1)\n");
  EXPECT_EQ(to_string(programs[3]),
            "round 0: recv from 1: output(3)\n"
            "         recv from 1: scratch(0, 0)\n"
            "round 1: send to 0: scratch(0, 0)\n");
}

TEST(BinomialScatter, IsGatherTurnedRound) {
  for (int ranks = 1; ranks <= kProofRanks; ++ranks) {
    for (const int root : {0, ranks / 2}) {
      const Proof there = proof_of(algorithm(), ranks, root),
                  back = proof_of(built_in(Operation::gather, "binomial"), ranks, root);
      EXPECT_EQ(there.depth, tree_levels(ranks));
      EXPECT_EQ(there.messages, back.messages);
      EXPECT_EQ(chunks_sent(there), chunks_sent(back));
      EXPECT_EQ(there.sent_chunks[static_cast<std::size_t>(root)], ranks - 1);
    }
  }
}

TEST(BinomialScatter, AloneCopies) {
  EXPECT_EQ(algorithm().build({}), (Program{.chunks = 1, .rounds = {{copy(input(0), output(0))}}}));
}

}  // namespace
}  // namespace paceline::collective::scatter_binomial
