#include <gtest/gtest.h>

#include "paceline/core/collective/building/balanced_tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::reduce_binomial {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::reduce, "binomial");
}

TEST(BinomialReduce, IsThisPictureFor4RanksAndRoot2) {
  const auto programs = programs_of(algorithm(), 4, 2);
  EXPECT_EQ(to_string(programs[0]),
            "round 0: recv_reduce from 1: scratch(0, 0) = input(0) OP received\n"
            "round 1: send to 2: scratch(0, 0)\n");
  EXPECT_EQ(to_string(programs[1]), "round 0: send to 0: input(0)\n");
  EXPECT_EQ(to_string(programs[2]),
            "round 0: recv_reduce from 3: output(0) = input(0) OP received\n"
            "round 1: recv_reduce from 0: output(0) = received OP output(0), complete\n");
  EXPECT_EQ(to_string(programs[3]), "round 0: send to 2: input(0)\n");
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
