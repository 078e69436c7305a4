#include <gtest/gtest.h>

#include "paceline/core/collective/building/balanced_tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::all_gather_circulant {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::all_gather, "circulant");
}

TEST(CirculantAllGather, TakesTheFewestRoundsAndTheFewestChunksForAnyCount) {
  for (int ranks = 2; ranks <= kProofRanks; ++ranks) {
    const Proof proof = proof_of(algorithm(), ranks);
    EXPECT_EQ(proof.rounds, tree_levels(ranks));
    EXPECT_EQ(proof.depth, tree_levels(ranks));
    EXPECT_EQ(proof.messages, ranks * tree_levels(ranks));
    EXPECT_EQ(proof.sent_chunks, std::vector<long>(static_cast<std::size_t>(ranks), ranks - 1));
    EXPECT_EQ(algorithm().build({.ranks = ranks}).scratch_places, 0);
  }
}

TEST(CirculantAllGather, IsProvenForManyRanks) {
  for (const int ranks : {127}) EXPECT_EQ(fault_of(algorithm(), ranks), "");
}

}  // namespace
}  // namespace paceline::collective::all_gather_circulant
