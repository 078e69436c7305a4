#include <gtest/gtest.h>

#include "paceline/core/collective/building/balanced_tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::all_reduce_circulant {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::all_reduce, "circulant");
}

TEST(CirculantAllReduce, TakesTheFewestChunksInTwiceTheFewestRoundsForAnyCount) {
  for (int ranks = 1; ranks <= kProofRanks; ++ranks) {
    const Proof proof = proof_of(algorithm(), ranks);
    EXPECT_EQ(proof.depth, 2 * tree_levels(ranks));
    EXPECT_EQ(proof.messages, 2 * ranks * tree_levels(ranks));
    EXPECT_EQ(proof.sent_chunks,
              std::vector<long>(static_cast<std::size_t>(ranks), 2 * (ranks - 1)));
    EXPECT_EQ(algorithm().build({.ranks = ranks}).scratch_places, 0);
  }
}

TEST(CirculantAllReduce, SumsTheOwnPartFirst) {
  EXPECT_EQ(proof_of(algorithm(), 4).tree, "((0+2)+(3+1))");
  EXPECT_EQ(algorithm().determinism, DeterminismClass::d2);
}

}  // namespace
}  // namespace paceline::collective::all_reduce_circulant
