#include <gtest/gtest.h>

#include "tests/core/collective/programs.h"

namespace paceline::collective::scatter_linear {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::scatter, "linear");
}

TEST(LinearScatter, IsGatherTurnedRound) {
  for (int ranks = 1; ranks <= 17; ++ranks) {
    const int root = ranks / 2;
    const Proof there = proof_of(algorithm(), ranks, root),
                back = proof_of(built_in(Operation::gather, "linear"), ranks, root);
    EXPECT_EQ(there.messages, back.messages);
    EXPECT_EQ(there.sent_chunks[static_cast<std::size_t>(root)], ranks - 1);
    EXPECT_EQ(back.sent_chunks[static_cast<std::size_t>(root)], 0);
  }
}

}  // namespace
}  // namespace paceline::collective::scatter_linear
