#include <gtest/gtest.h>

#include "tests/core/collective/programs.h"

namespace paceline::collective::all_reduce_ring {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::all_reduce, "ring");
}

TEST(RingAllReduce, Takes2TimesNMinus1RoundsOfOneMessageEach) {
  for (int ranks = 2; ranks <= 33; ++ranks) {
    const Proof proof = proof_of(algorithm(), ranks);
    EXPECT_EQ(proof.rounds, 2 * (ranks - 1));
    EXPECT_EQ(proof.sent_chunks,
              std::vector<long>(static_cast<std::size_t>(ranks), 2 * (ranks - 1)));
  }
}

TEST(RingAllReduce, SendsEachChunkTwiceButThoseOfTheTwoRanksAhead) {
  // 2n - |chunk r+1| - |chunk r+2| (docs/algorithms/ring.md).
  const int n = 5;
  const auto programs = programs_of(algorithm(), n);
  for (int rank = 0; rank < n; ++rank) {
    std::vector<int> sent(n, 0);
    for (const Round& round : programs[static_cast<std::size_t>(rank)].rounds) {
      ++sent[static_cast<std::size_t>(round[0].source.chunk)];
    }
    for (int chunk = 0; chunk < n; ++chunk) {
      const bool is_ahead = chunk == (rank + 1) % n || chunk == (rank + 2) % n;
      EXPECT_EQ(sent[static_cast<std::size_t>(chunk)], is_ahead ? 1 : 2);
    }
  }
}

TEST(RingAllReduce, SumsAlongTheRingSoThatTheTreeDependsOnTheChunk) {
  EXPECT_EQ(proof_of(algorithm(), 5).tree, "((((0+1)+2)+3)+4)");
  EXPECT_TRUE(proof_of(algorithm(), 1).balanced_tree);
  for (int ranks = 2; ranks <= 33; ++ranks)
    EXPECT_FALSE(proof_of(algorithm(), ranks).balanced_tree);
  EXPECT_EQ(algorithm().determinism, DeterminismClass::d2);
}

}  // namespace
}  // namespace paceline::collective::all_reduce_ring
