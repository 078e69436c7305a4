#include <gtest/gtest.h>

#include "paceline/core/collective/building/balanced_tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::all_reduce_recursive_doubling {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::all_reduce, "recursive_doubling");
}

TEST(RecursiveDoublingAllReduce, IsThisPictureFor3And4Ranks) {
  EXPECT_EQ(to_string(algorithm().build({.ranks = 4, .rank = 2})),
            "round 0: send to 3: input(0)\n"
            "         recv_reduce from 3: scratch(0, 0) = input(0) OP received\n"
            "round 1: send to 0: scratch(0, 0)\n"
            "         recv_reduce from 0: output(0) = received OP scratch(0, 0), complete\n");
  EXPECT_EQ(to_string(algorithm().build({.ranks = 3, .rank = 2})),
            "round 0: send to 0: input(0)\n"
            "         send to 1: input(0)\n"
            "         recv_reduce from 0: scratch(0, 0) = received OP input(0), complete\n"
            "round 1: copy: output(0) = scratch(0, 0)\n");
}

TEST(RecursiveDoublingAllReduce, TakesOneRoundForEachLevelOfTheTree) {
  for (const int ranks : {2, 4, 8, 16, 32}) {
    const Proof proof = proof_of(algorithm(), ranks);
    EXPECT_EQ(proof.sent_chunks,
              std::vector<long>(static_cast<std::size_t>(ranks), tree_levels(ranks)));
    EXPECT_EQ(proof.rounds, ranks == 2 ? 2 : tree_levels(ranks))
        << "for 2 ranks the output is written in a round of its own";
  }
}

TEST(RecursiveDoublingAllReduce, AShortBlockSendsForEachRankThatItServes) {
  EXPECT_EQ(counters_of(proof_of(algorithm(), 5)), (Counters{3, 4 + 4 + 5, 4}));
  EXPECT_EQ(counters_of(proof_of(algorithm(), 7)), (Counters{3, 6 + 7 + 7, 4}));
  for (int ranks = 2; ranks <= 64; ranks *= 2) {
    EXPECT_EQ(algorithm().closed_form({.ranks = ranks + 1}).chunks, ranks)
        << "the rank that is too many serves all others";
  }
}

TEST(RecursiveDoublingAllReduce, SumsByTheBalancedTreeForAnyCount) {
  for (int ranks = 1; ranks <= 33; ++ranks)
    EXPECT_TRUE(proof_of(algorithm(), ranks).balanced_tree) << ranks;
  EXPECT_EQ(proof_of(algorithm(), 5).tree, "(((0+1)+(2+3))+4)");
}

}  // namespace
}  // namespace paceline::collective::all_reduce_recursive_doubling
