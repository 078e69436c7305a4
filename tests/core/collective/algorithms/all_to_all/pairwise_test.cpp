#include <gtest/gtest.h>

#include "tests/core/collective/programs.h"

namespace paceline::collective::all_to_all_pairwise {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::all_to_all, "pairwise");
}

TEST(PairwiseAllToAll, IsThisPictureFor3Ranks) {
  EXPECT_EQ(to_string(algorithm().build({.ranks = 3, .rank = 1})),
            "round 0: copy: output(4) = input(4)\n"
            "         send to 2: input(5)\n"
            "         recv from 0: output(1)\n"
            "round 1: send to 0: input(3)\n"
            "         recv from 2: output(7)\n");
}

TEST(PairwiseAllToAll, ExchangesWithTheSameRankBothWaysForAPowerOfTwo) {
  for (const int ranks : {2, 4, 16}) {
    for (const Program& program : programs_of(algorithm(), ranks)) {
      for (const Round& round : program.rounds) {
        const Step &out = round[round.size() - 2], &in = round.back();
        EXPECT_EQ(out.peer, in.peer);
      }
    }
  }
}

TEST(PairwiseAllToAll, SendsOneChunkToEachPeerOneARound) {
  for (int ranks = 2; ranks <= 17; ++ranks) {
    const Proof proof = proof_of(algorithm(), ranks);
    EXPECT_EQ(proof.sent_chunks, std::vector<long>(static_cast<std::size_t>(ranks), ranks - 1));
    EXPECT_EQ(proof.rounds, ranks - 1);
  }
}

}  // namespace
}  // namespace paceline::collective::all_to_all_pairwise
