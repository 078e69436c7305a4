#include "paceline/core/collective/building/halving.h"

#include <gtest/gtest.h>

#include "paceline/core/collective/program/composition.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective {
namespace {

using namespace testing;

TEST(Halving, IsThisPictureFor4RanksNearestFirst) {
  EXPECT_EQ(to_string(halving_reduce_scatter({.ranks = 4, .rank = 0}, Partners::nearest_first)),
            "round 0: send to 1: input(2)\n"
            "         send to 1: input(3)\n"
            "         recv_reduce from 1: output(0) = input(0) OP received\n"
            "         recv_reduce from 1: output(1) = input(1) OP received\n"
            "round 1: send to 2: output(1)\n"
            "         recv_reduce from 2: output(0) = output(0) OP received, complete\n");
}

// The chunk that a rank completes.
int completed(const Program& program) {
  for (const Step& step : program.rounds.back()) {
    if (step.completes) return step.target.chunk;
  }
  return -1;
}

TEST(Halving, LeavesEachRankItsOwnChunkOrThatOfItsReversedBits) {
  for (int ranks = 1; ranks <= 64; ranks *= 2) {
    for (int rank = 0; rank < ranks; ++rank) {
      const Shape shape{.ranks = ranks, .rank = rank};
      EXPECT_EQ(completed(halving_reduce_scatter(shape, Partners::farthest_first)), rank);
      EXPECT_EQ(completed(halving_reduce_scatter(shape, Partners::nearest_first)),
                reversed_bits(rank, ranks));
    }
  }
}

TEST(Halving, ReversedBitsReverseTwice) {
  EXPECT_EQ(reversed_bits(0b0001, 16), 0b1000);
  EXPECT_EQ(reversed_bits(0b0110, 8), 0b0011);
  for (int number = 0; number < 64; ++number)
    EXPECT_EQ(reversed_bits(reversed_bits(number, 64), 64), number);
}

TEST(Halving, ThereAndBackIsAnAllReduceEitherWay) {
  for (const Partners partners : {Partners::nearest_first, Partners::farthest_first}) {
    for (int ranks = 1; ranks <= 64; ranks *= 2) {
      std::vector<Program> programs;
      for (int rank = 0; rank < ranks; ++rank) {
        const Program there = halving_reduce_scatter({.ranks = ranks, .rank = rank}, partners);
        programs.push_back(in_sequence({there, way_back(there)}));
      }
      const Algorithm both{.operation = Operation::all_reduce, .name = "halving"};
      const Proof proof = proof_of(with_programs(both, programs), ranks);
      EXPECT_EQ(proof.balanced_tree, partners == Partners::nearest_first || ranks <= 2) << ranks;
    }
  }
}

}  // namespace
}  // namespace paceline::collective
