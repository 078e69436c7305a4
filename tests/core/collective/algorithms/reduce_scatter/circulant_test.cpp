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

TEST(CirculantReduceScatter, IsThisPictureFor4Ranks) {
  EXPECT_EQ(to_string(algorithm().build({.ranks = 4, .rank = 1})),
            "round 0: send to 3: input(3)\n"
            "         send to 3: input(0)\n"
            "         recv_reduce from 3: output(1) = input(1) OP received\n"
            "         recv_reduce from 3: scratch(0, 2) = input(2) OP received\n"
            "round 1: send to 2: scratch(0, 2)\n"
            "         recv_reduce from 0: output(1) = output(1) OP received, complete\n");
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

TEST(CirculantReduceScatter, AloneCopies) {
  EXPECT_EQ(algorithm().build({}),
            (Program{.chunks = 1, .rounds = {{completing(copy(input(0), output(0)))}}}));
}

}  // namespace
}  // namespace paceline::collective::reduce_scatter_circulant
