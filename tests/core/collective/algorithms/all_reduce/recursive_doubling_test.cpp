#include <gtest/gtest.h>

#include "paceline/core/collective/building/balanced_tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::all_reduce_recursive_doubling {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::all_reduce, "recursive_doubling");
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
