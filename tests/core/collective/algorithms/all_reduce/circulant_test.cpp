#include <gtest/gtest.h>

#include "paceline/core/collective/building/balanced_tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::all_reduce_circulant {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::all_reduce, "circulant");
}

TEST(CirculantAllReduce, IsThisPictureFor4Ranks) {
  EXPECT_EQ(to_string(algorithm().build({.ranks = 4, .rank = 0})),
            "round 0: send to 2: input(2)\n"
            "         send to 2: input(3)\n"
            "         recv_reduce from 2: output(0) = input(0) OP received\n"
            "         recv_reduce from 2: output(1) = input(1) OP received\n"
            "round 1: send to 1: output(1)\n"
            "         recv_reduce from 3: output(0) = output(0) OP received, complete\n"
            "round 2: recv from 1: output(1)\n"
            "         send to 3: output(0)\n"
            "round 3: recv from 2: output(2)\n"
            "         recv from 2: output(3)\n"
            "         send to 2: output(0)\n"
            "         send to 2: output(1)\n");
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

TEST(CirculantAllReduce, AloneCopies) {
  EXPECT_EQ(algorithm().build({}),
            (Program{.chunks = 1, .rounds = {{completing(copy(input(0), output(0)))}}}));
}

}  // namespace
}  // namespace paceline::collective::all_reduce_circulant
