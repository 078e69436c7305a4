#include <gtest/gtest.h>

#include <algorithm>

#include "paceline/core/collective/building/balanced_tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::reduce_scatter_circulant {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::reduce_scatter, "circulant");
}

TEST(CirculantReduceScatter, TakesTheFewestRoundsAndTheFewestChunksForAnyCount) {
  for (int ranks = 1; ranks <= kProofRanks; ++ranks) {
    const Proof proof = proof_of(algorithm(), ranks);
    EXPECT_EQ(proof.depth, tree_levels(ranks));
    EXPECT_EQ(proof.messages, ranks * tree_levels(ranks));
    EXPECT_EQ(proof.sent_chunks, std::vector<long>(static_cast<std::size_t>(ranks), ranks - 1));
    EXPECT_EQ(algorithm().build({.ranks = ranks}).scratch_places, std::max(ranks / 2 - 1, 0));
  }
}

TEST(CirculantReduceScatter, SumsTheOwnPartFirst) {
  EXPECT_EQ(proof_of(algorithm(), 4).tree, "((0+2)+(3+1))");
  EXPECT_EQ(algorithm().determinism, DeterminismClass::d2);
}

TEST(CirculantReduceScatter, IsProvenForManyRanks) {
  for (const int ranks : {127}) EXPECT_EQ(fault_of(algorithm(), ranks), "");
}

}  // namespace
}  // namespace paceline::collective::reduce_scatter_circulant
