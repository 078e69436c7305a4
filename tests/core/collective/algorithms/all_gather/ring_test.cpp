#include <gtest/gtest.h>

#include "tests/core/collective/programs.h"

namespace paceline::collective::all_gather_ring {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::all_gather, "ring");
}

TEST(RingAllGather, TakesNMinus1RoundsOfOneMessageEach) {
  for (int ranks = 2; ranks <= 33; ++ranks) {
    const Proof proof = proof_of(algorithm(), ranks);
    EXPECT_EQ(proof.rounds, ranks - 1);
    EXPECT_EQ(proof.sent_chunks, std::vector<long>(static_cast<std::size_t>(ranks), ranks - 1));
    EXPECT_EQ(algorithm().build({.ranks = ranks}).scratch_places, 0);
  }
}

TEST(RingAllGather, SumsNothing) {
  EXPECT_EQ(proof_of(algorithm(), 4).tree, "");
  EXPECT_TRUE(proof_of(algorithm(), 4).balanced_tree);
}

}  // namespace
}  // namespace paceline::collective::all_gather_ring
