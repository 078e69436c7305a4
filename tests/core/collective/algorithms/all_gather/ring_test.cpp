#include <gtest/gtest.h>

#include "tests/core/collective/programs.h"

namespace paceline::collective::all_gather_ring {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::all_gather, "ring");
}

TEST(RingAllGather, IsThisPictureFor4Ranks) {
  EXPECT_EQ(to_string(algorithm().build({.ranks = 4, .rank = 1})),
            "round 0: send to 2: input(1)\n"
            "         recv from 0: output(0)\n"
            "round 1: send to 2: output(0)\n"
            "         recv from 0: output(3)\n"
            "round 2: send to 2: output(3)\n"
            "         recv from 0: output(2)\n"
            "         copy: output(1) = input(1)\n");
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

TEST(RingAllGather, AloneCopies) {
  EXPECT_EQ(algorithm().build({}), (Program{.chunks = 1, .rounds = {{copy(input(0), output(0))}}}));
}

}  // namespace
}  // namespace paceline::collective::all_gather_ring
