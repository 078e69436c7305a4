#include <gtest/gtest.h>

#include "tests/core/collective/programs.h"

namespace paceline::collective::all_reduce_ring {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::all_reduce, "ring");
}

TEST(RingAllReduce, IsThisPictureFor4Ranks) {
  EXPECT_EQ(to_string(algorithm().build({.ranks = 4, .rank = 1})),
            "round 0: send to 2: input(1)\n"
            "         recv_reduce from 0: output(0) = received OP input(0)\n"
            "round 1: send to 2: output(0)\n"
            "         recv_reduce from 0: output(3) = received OP input(3)\n"
            "round 2: send to 2: output(3)\n"
            "         recv_reduce from 0: output(2) = received OP input(2), complete\n"
            "round 3: send to 2: output(2)\n"
            "         recv from 0: output(1)\n"
            "round 4: send to 2: output(1)\n"
            "         recv from 0: output(0)\n"
            "round 5: send to 2: output(0)\n"
            "         recv from 0: output(3)\n");
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

TEST(RingAllReduce, AloneCopies) {
  EXPECT_EQ(algorithm().build({}),
            (Program{.chunks = 1, .rounds = {{completing(copy(input(0), output(0)))}}}));
}

}  // namespace
}  // namespace paceline::collective::all_reduce_ring
