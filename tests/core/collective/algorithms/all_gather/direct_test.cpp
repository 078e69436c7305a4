#include <gtest/gtest.h>

#include "tests/core/collective/programs.h"

namespace paceline::collective::all_gather_direct {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::all_gather, "direct");
}

TEST(DirectAllGather, IsThisPictureFor4Ranks) {
  EXPECT_EQ(to_string(algorithm().build({.ranks = 4, .rank = 1})),
            "round 0: store to 2: input(1) into output(1)\n"
            "         recv from 2: output(2)\n"
            "         store to 3: input(1) into output(1)\n"
            "         recv from 3: output(3)\n"
            "         store to 0: input(1) into output(1)\n"
            "         recv from 0: output(0)\n"
            "         copy: output(1) = input(1)\n");
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
