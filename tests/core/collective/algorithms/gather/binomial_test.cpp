#include <gtest/gtest.h>

#include "paceline/core/collective/building/balanced_tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::gather_binomial {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::gather, "binomial");
}

TEST(BinomialGather, IsThisPictureFor4RanksAndRoot1) {
  const auto programs = programs_of(algorithm(), 4, 1);
  EXPECT_EQ(to_string(programs[1]),
            "round 0: recv from 2: output(2)\n"
            "round 1: recv from 3: output(3)\n"
            "         recv from 3: output(0)\n"
            "         copy: output(1) = input(1)\n");
  EXPECT_EQ(to_string(programs[3]),
            "round 0: recv from 0: scratch(0, 0)\n"
            "round 1: send to 1: input(3)\n"
            "         send to 1: scratch(0, 0)\n");
}

TEST(BinomialGather, TakesOneMessageFromEachRankAndTheHeightOfTheTree) {
  for (int ranks = 1; ranks <= kProofRanks; ++ranks) {
    for (const int root : {0, ranks / 2}) {
      const Proof proof = proof_of(algorithm(), ranks, root);
      EXPECT_EQ(proof.depth, tree_levels(ranks));
      EXPECT_EQ(proof.messages, ranks - 1);
      EXPECT_EQ(proof.sent_chunks[static_cast<std::size_t>(root)], 0);
      EXPECT_GE(chunks_sent(proof), ranks - 1);
    }
  }
}

TEST(BinomialGather, AloneCopies) {
  EXPECT_EQ(algorithm().build({}), (Program{.chunks = 1, .rounds = {{copy(input(0), output(0))}}}));
}

}  // namespace
}  // namespace paceline::collective::gather_binomial
