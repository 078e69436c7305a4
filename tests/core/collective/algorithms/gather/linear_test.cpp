#include <gtest/gtest.h>

#include "tests/core/collective/programs.h"

namespace paceline::collective::gather_linear {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::gather, "linear");
}

TEST(LinearGather, IsThisPictureFor3RanksAndRoot1) {
  const auto programs = programs_of(algorithm(), 3, 1);
  EXPECT_EQ(to_string(programs[1]),
            "round 0: recv from 2: output(2)\n"
            "         recv from 0: output(0)\n"
            "         copy: output(1) = input(1)\n");
  EXPECT_EQ(to_string(programs[0]), "round 0: send to 1: input(0)\n");
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
