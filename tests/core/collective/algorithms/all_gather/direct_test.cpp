#include <gtest/gtest.h>

#include "tests/core/collective/programs.h"

namespace paceline::collective::all_gather_direct {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::all_gather, "direct");
}

TEST(DirectAllGather, SendsItsChunkToEachPeerInOneRound) {
  for (int ranks = 1; ranks <= 33; ++ranks) {
    const Proof proof = proof_of(algorithm(), ranks);
    EXPECT_EQ(proof.sent_chunks, std::vector<long>(static_cast<std::size_t>(ranks), ranks - 1));
    EXPECT_EQ(proof.rounds, 1);
    EXPECT_EQ(algorithm().build({.ranks = ranks}).scratch_places, 0);
  }
}

TEST(DirectAllGather, SumsNothing) {
  EXPECT_EQ(proof_of(algorithm(), 4).tree, "");
  EXPECT_TRUE(proof_of(algorithm(), 4).balanced_tree);
}

}  // namespace
}  // namespace paceline::collective::all_gather_direct
