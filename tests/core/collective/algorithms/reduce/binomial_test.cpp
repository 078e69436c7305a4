#include <gtest/gtest.h>

#include "paceline/core/collective/building/balanced_tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::reduce_binomial {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::reduce, "binomial");
}

TEST(BinomialReduce, EachRankButTheRootSendsOnceWhicheverIsTheRoot) {
  for (int ranks = 1; ranks <= 17; ++ranks) {
    for (int root = 0; root < ranks; ++root) {
      const Proof proof = proof_of(algorithm(), ranks, root);
      std::vector<long> wanted(static_cast<std::size_t>(ranks), 1);
      wanted[static_cast<std::size_t>(root)] = 0;
      EXPECT_EQ(proof.sent_chunks, wanted);
      EXPECT_TRUE(proof.balanced_tree) << ranks << " ranks, root " << root;
      EXPECT_LE(proof.rounds, std::max(1, tree_levels(ranks)));
    }
  }
}

}  // namespace
}  // namespace paceline::collective::reduce_binomial
