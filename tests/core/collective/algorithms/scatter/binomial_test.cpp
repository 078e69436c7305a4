#include <gtest/gtest.h>

#include "paceline/core/collective/building/balanced_tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::scatter_binomial {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::scatter, "binomial");
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

}  // namespace
}  // namespace paceline::collective::scatter_binomial
