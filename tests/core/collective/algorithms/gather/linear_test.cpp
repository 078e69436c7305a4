#include <gtest/gtest.h>

#include "tests/core/collective/programs.h"

namespace paceline::collective::gather_linear {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::gather, "linear");
}

TEST(LinearGather, MovesEachChunkOnce) {
  for (int ranks = 1; ranks <= 17; ++ranks) {
    const Proof proof = proof_of(algorithm(), ranks, ranks / 2);
    EXPECT_EQ(proof.messages, ranks - 1);
    EXPECT_EQ(proof.rounds, 1);
  }
}

}  // namespace
}  // namespace paceline::collective::gather_linear
