#include <gtest/gtest.h>

#include "tests/core/collective/programs.h"

namespace paceline::collective::broadcast_direct {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::broadcast, "direct");
}

TEST(DirectBroadcast, SendsAllFromTheRootInOneRound) {
  for (int ranks = 1; ranks <= 33; ++ranks) {
    const int root = ranks / 2;
    const Proof proof = proof_of(algorithm(), ranks, root);
    EXPECT_EQ(proof.rounds, 1);
    EXPECT_EQ(proof.messages, ranks - 1);
    EXPECT_EQ(proof.sent_chunks[static_cast<std::size_t>(root)], ranks - 1);
  }
}

TEST(DirectBroadcast, SumsNothing) {
  EXPECT_EQ(proof_of(algorithm(), 4).tree, "");
  EXPECT_TRUE(proof_of(algorithm(), 4).balanced_tree);
}

}  // namespace
}  // namespace paceline::collective::broadcast_direct
