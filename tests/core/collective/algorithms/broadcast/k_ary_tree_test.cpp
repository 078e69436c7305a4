#include <gtest/gtest.h>

#include "paceline/core/collective/building/tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::broadcast_k_ary_tree {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::broadcast, "k_ary_tree");
}

TEST(KAryTreeBroadcast, IsThisPictureFor6RanksAndRoot1) {
  const auto programs = programs_of(algorithm(), 6, 1);
  EXPECT_EQ(to_string(programs[1]),
            "round 0: send to 2: input(0)\n"
            "         send to 3: input(0)\n"
            "         copy: output(0) = input(0)\n");
  EXPECT_EQ(to_string(programs[2]),
            "round 0: recv from 1: output(0)\n"
            "round 1: send to 4: output(0)\n"
            "         send to 5: output(0)\n");
  EXPECT_EQ(to_string(programs[0]), "round 0: recv from 3: output(0)\n");
}

TEST(KAryTreeBroadcast, TakesTheHeightOfTheTreeAndTheBufferOncePerEdge) {
  for (const int radix : {1, 2, 3, 4, 8}) {
    for (int ranks = 1; ranks <= kProofRanks; ++ranks) {
      const int root = ranks / 3;
      const Shape shape{.ranks = ranks, .root = root, .radix = radix};
      const Proof proof = proof_of(algorithm(), shape);
      EXPECT_EQ(proof.depth, k_ary_tree(ranks, radix).height());
      EXPECT_EQ(proof.messages, ranks - 1);
      for (const long sent : proof.sent_chunks) EXPECT_LE(sent, radix);
    }
  }
}

TEST(KAryTreeBroadcast, NeedsAtLeastOneChild) {
  EXPECT_FALSE(algorithm().fits({.ranks = 4, .radix = 0}));
}

TEST(KAryTreeBroadcast, AloneCopies) {
  EXPECT_EQ(algorithm().build({}), (Program{.chunks = 1, .rounds = {{copy(input(0), output(0))}}}));
}

}  // namespace
}  // namespace paceline::collective::broadcast_k_ary_tree
