#include <gtest/gtest.h>

#include "tests/core/collective/grids.h"

namespace paceline::collective::all_reduce_bcube {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::all_reduce, "bcube");
}

TEST(BcubeAllReduce, IsProvenForEveryRadix) {
  for (const int radix : {2, 3, 4, 6}) {
    for (int ranks = radix; ranks <= (test::kSanitized ? 12 : 64); ++ranks) {
      const Shape shape{.ranks = ranks, .radix = radix};
      const Proof proof = proof_of(algorithm(), shape);
      EXPECT_EQ(proof.sent_chunks,
                std::vector<long>(static_cast<std::size_t>(ranks), 2 * (ranks - 1)));
      EXPECT_EQ(proof.balanced_tree, algorithm().has_balanced_tree(shape)) << ranks;
    }
  }
}

TEST(BcubeAllReduce, SumsByTheBalancedTreeWhereTheRadixIsAPowerOfTwo) {
  EXPECT_EQ(proof_of(algorithm(), 6).tree, "(((0+1)+(2+3))+(4+5))");
  for (const int radix : {2, 4, 8})
    EXPECT_TRUE(proof_of(algorithm(), {.ranks = 48, .radix = radix}).balanced_tree);
  EXPECT_EQ(proof_of(algorithm(), {.ranks = 9, .radix = 3}).tree,
            "((((0+1)+2)+((3+4)+5))+((6+7)+8))");
}

TEST(BcubeAllReduce, WithRadix2HalvesAndDoublesNearestRanksFirst) {
  for (const int ranks : {2, 4, 8, 16, 32}) {
    const auto programs = programs_of(algorithm(), ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<int> distances, lengths;  // of each round with messages
      for (const Round& round : programs[static_cast<std::size_t>(rank)].rounds) {
        int peer = -1, chunks = 0;
        for (const Step& step : round) {
          if (step.kind != Step::Kind::send && step.kind != Step::Kind::store) continue;
          EXPECT_TRUE(peer == -1 || peer == step.peer);
          peer = step.peer;
          ++chunks;
        }
        if (peer < 0) continue;
        distances.push_back(peer ^ rank);
        lengths.push_back(chunks);
      }
      std::vector<int> up, halves;
      for (int distance = 1; distance < ranks; distance *= 2) {
        up.push_back(distance);
        halves.push_back(ranks / 2 / distance);
      }
      up.insert(up.end(), up.rbegin(), up.rend());
      halves.insert(halves.end(), halves.rbegin(), halves.rend());
      EXPECT_EQ(distances, up);
      EXPECT_EQ(lengths, halves);
    }
  }
}

TEST(BcubeAllReduce, CostsWhatItsDigitsDo) {
  constexpr topology::Prices kPrices{.alpha = 3, .beta = 1, .gamma = 0.5};
  for (const auto& digits : {std::vector{2, 2, 2, 2}, {2, 2, 5}, {3, 3}, {3, 3, 2}, {4, 4}, {7}}) {
    const Shape shape{.ranks = ranks_of(digits), .radix = digits[0]};
    const auto bytes = static_cast<std::size_t>(2 * shape.ranks);
    EXPECT_NEAR(price_on_grid(algorithm(), shape, bytes, kPrices),
                seconds_on_grid(digits, 2 * shape.ranks, kPrices), 1e-9);
  }
}

TEST(BcubeAllReduce, OfAPrimeNumberIsDirect) {
  for (const int ranks : {1, 2, 3, 5, 13})
    EXPECT_EQ(programs_of(algorithm(), ranks),
              programs_of(built_in(Operation::all_reduce, "direct"), ranks));
}

TEST(BcubeAllReduce, NeedsARadixOfTwo) {
  EXPECT_TRUE(algorithm().fits({.ranks = 4, .radix = 2}));
  for (const int radix : {1, 0, -2}) EXPECT_FALSE(algorithm().fits({.ranks = 4, .radix = radix}));
}

}  // namespace
}  // namespace paceline::collective::all_reduce_bcube
