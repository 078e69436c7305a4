#include <gtest/gtest.h>

#include "paceline/core/collective/building/balanced_tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::broadcast_binomial {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::broadcast, "binomial");
}

TEST(BinomialBroadcast, TakesTheHeightOfTheTreeAndNoRankSendsMoreThanThat) {
  for (int ranks = 2; ranks <= 33; ++ranks) {
    for (const int root : {0, 1, ranks - 1}) {
      const Proof proof = proof_of(algorithm(), ranks, root);
      EXPECT_EQ(proof.rounds, tree_levels(ranks));
      EXPECT_EQ(proof.messages, ranks - 1);
      EXPECT_EQ(proof.sent_chunks[static_cast<std::size_t>(root)], tree_levels(ranks));
      for (const long sent : proof.sent_chunks) EXPECT_LE(sent, tree_levels(ranks));
    }
  }
}

TEST(BinomialBroadcast, AnotherRootTurnsTheNumbersRound) {
  const auto from_0 = programs_of(algorithm(), 6, 0), from_4 = programs_of(algorithm(), 6, 4);
  for (std::size_t distance = 0; distance < 6; ++distance) {
    Program turned = from_0[distance];
    for (Round& round : turned.rounds) {
      for (Step& step : round) step.peer = step.peer < 0 ? -1 : (step.peer + 4) % 6;
    }
    EXPECT_EQ(turned, from_4[(distance + 4) % 6]);
  }
}

}  // namespace
}  // namespace paceline::collective::broadcast_binomial
