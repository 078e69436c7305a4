#include <gtest/gtest.h>

#include "paceline/core/collective/building/tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::reduce_k_ary_tree {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::reduce, "k_ary_tree");
}

TEST(KAryTreeReduce, IsThisPictureFor6RanksAndRoot1) {
  const auto programs = programs_of(algorithm(), 6, 1);
  EXPECT_EQ(to_string(programs[1]),
            "round 0: recv_reduce from 2: output(0) = input(0) OP received\n"
            "         recv from 3: scratch(0, 0)\n"
            "round 1: reduce: output(0) = output(0) OP scratch(0, 0), complete\n");
  EXPECT_EQ(to_string(programs[3]),
            "round 0: recv_reduce from 0: scratch(0, 0) = input(0) OP received\n"
            "round 1: send to 1: scratch(0, 0)\n");
  EXPECT_EQ(to_string(programs[0]), "round 0: send to 3: input(0)\n");
}

TEST(KAryTreeReduce, TakesTheHeightOfTheTreeAndTheBufferFromEachRankButTheRoot) {
  for (const int radix : {1, 2, 3, 4, 8}) {
    for (int ranks = 1; ranks <= kProofRanks; ++ranks) {
      const int root = ranks / 3;
      const Shape shape{.ranks = ranks, .root = root, .radix = radix};
      const Proof proof = proof_of(algorithm(), shape);
      std::vector<long> wanted(static_cast<std::size_t>(ranks), 1);
      wanted[static_cast<std::size_t>(root)] = 0;
      EXPECT_EQ(proof.sent_chunks, wanted);
      EXPECT_EQ(proof.depth, k_ary_tree(ranks, radix).height());
    }
  }
}

TEST(KAryTreeReduce, SumsAsTheAllReduceDoesFromTheRootOn) {
  EXPECT_EQ(proof_of(algorithm(), 6, 0).tree,
            proof_of(built_in(Operation::all_reduce, "k_ary_tree"), 6).tree);
  EXPECT_EQ(proof_of(algorithm(), 6, 1).tree, "((1+((2+4)+5))+(3+0))");
}

TEST(KAryTreeReduce, AloneCopies) {
  EXPECT_EQ(algorithm().build({}),
            (Program{.chunks = 1, .rounds = {{completing(copy(input(0), output(0)))}}}));
}

}  // namespace
}  // namespace paceline::collective::reduce_k_ary_tree
