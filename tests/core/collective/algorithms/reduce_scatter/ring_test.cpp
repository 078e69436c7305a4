#include <gtest/gtest.h>

#include <algorithm>

#include "tests/core/collective/programs.h"

namespace paceline::collective::reduce_scatter_ring {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::reduce_scatter, "ring");
}

TEST(RingReduceScatter, TakesNMinus1RoundsOfOneMessageEachAndTwoPlacesAtMost) {
  for (int ranks = 2; ranks <= 33; ++ranks) {
    const Proof proof = proof_of(algorithm(), ranks);
    EXPECT_EQ(proof.rounds, ranks - 1);
    EXPECT_EQ(proof.sent_chunks, std::vector<long>(static_cast<std::size_t>(ranks), ranks - 1));
    EXPECT_EQ(algorithm().build({.ranks = ranks}).scratch_places, std::min(ranks - 2, 2));
  }
}

TEST(RingReduceScatter, SumsAlongTheRingAndEndsWithTheOwner) {
  EXPECT_EQ(proof_of(algorithm(), 5).tree, "((((1+2)+3)+4)+0)");
  for (int ranks = 2; ranks <= 33; ++ranks)
    EXPECT_FALSE(proof_of(algorithm(), ranks).balanced_tree);
  EXPECT_EQ(algorithm().determinism, DeterminismClass::d2);
}

}  // namespace
}  // namespace paceline::collective::reduce_scatter_ring
