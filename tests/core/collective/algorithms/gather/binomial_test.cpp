#include <gtest/gtest.h>

#include "paceline/core/collective/building/balanced_tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::gather_binomial {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::gather, "binomial");
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

}  // namespace
}  // namespace paceline::collective::gather_binomial
