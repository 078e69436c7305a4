#include <gtest/gtest.h>

#include "tests/core/collective/programs.h"

namespace paceline::collective::all_to_all_pairwise {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::all_to_all, "pairwise");
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
