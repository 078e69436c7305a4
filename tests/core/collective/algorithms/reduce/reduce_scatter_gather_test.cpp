#include <gtest/gtest.h>

#include "paceline/core/collective/building/balanced_tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::reduce_reduce_scatter_gather {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::reduce, "reduce_scatter_gather");
}

TEST(ReduceScatterGatherReduce, IsThisPictureFor3RanksAndRoot0) {
  const auto programs = programs_of(algorithm(), 3);
  EXPECT_EQ(to_string(programs[0]),
            "round 0: send to 2: input(2)\n"
            "         recv_reduce from 1: output(0) = input(0) OP received\n"
            "round 1: send to 1: input(1)\n"
            "         recv_reduce from 2: output(0) = output(0) OP received, complete\n"
            "round 2: recv from 1: output(1)\n"
            "round 3: recv from 2: output(2)\n");
  EXPECT_EQ(to_string(programs[1]),
            "round 0: send to 0: input(0)\n"
            "         recv_reduce from 2: scratch(0, 1) = input(1) OP received\n"
            "round 1: send to 2: input(2)\n"
            "         recv_reduce from 0: scratch(0, 1) = scratch(0, 1) OP received, complete\n"
            "round 2: send to 0: scratch(0, 1)\n");
}

TEST(ReduceScatterGatherReduce, TakesTwiceTheFewestRoundsAndTheBufferIntoTheRootTwiceAtMost) {
  for (int ranks = 2; ranks <= kProofRanks; ++ranks) {
    for (const int root : {0, ranks / 2}) {
      const Proof proof = proof_of(algorithm(), ranks, root);
      EXPECT_EQ(proof.depth, 2 * tree_levels(ranks));
      EXPECT_EQ(proof.messages, ranks * tree_levels(ranks) + ranks - 1);
      EXPECT_EQ(proof.sent_chunks[static_cast<std::size_t>(root)], ranks - 1);
    }
  }
}

TEST(ReduceScatterGatherReduce, SumsAsTheReduceScatterDoes) {
  for (const int root : {0, 3}) {
    EXPECT_EQ(proof_of(algorithm(), 5, root).tree,
              proof_of(built_in(Operation::reduce_scatter, "circulant"), 5).tree);
  }
  EXPECT_EQ(algorithm().determinism, DeterminismClass::d2);
}

TEST(ReduceScatterGatherReduce, AloneCopies) {
  EXPECT_EQ(algorithm().build({}),
            (Program{.chunks = 1, .rounds = {{completing(copy(input(0), output(0)))}}}));
}

}  // namespace
}  // namespace paceline::collective::reduce_reduce_scatter_gather
