#include "paceline/linear/data/split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace paceline::linear {
namespace {

TEST(SplitTest, PartsHoldEverySampleOnceAndDifferByOneAtMost) {
  for (const Split split : {Split::shuffled, Split::contiguous}) {
    for (const std::size_t count : {0u, 3u, 10u, 101u}) {
      std::vector<std::size_t> all;
      std::size_t least = count, most = 0;
      for (int rank = 0; rank < 4; ++rank) {
        const auto part = part_of(count, split, 7, rank, 4);
        EXPECT_TRUE(std::ranges::is_sorted(part));
        all.insert(all.end(), part.begin(), part.end());
        least = std::min(least, part.size());
        most = std::max(most, part.size());
      }
      EXPECT_LE(most - least, 1u);
      std::ranges::sort(all);
      std::vector<std::size_t> expected(count);
      std::iota(expected.begin(), expected.end(), std::size_t{0});
      EXPECT_EQ(all, expected);
      EXPECT_EQ(part_of(count, split, 7, 0, 1), expected);
    }
  }
}

TEST(SplitTest, ContiguousPartsAreRunsAndShuffledOnesAreNot) {
  EXPECT_EQ(part_of(10, Split::contiguous, 7, 1, 4), (std::vector<std::size_t>{3, 4, 5}));
  EXPECT_NE(part_of(100, Split::shuffled, 7, 1, 4), part_of(100, Split::shuffled, 8, 1, 4));
  EXPECT_NE(part_of(100, Split::shuffled, 7, 0, 4), part_of(100, Split::contiguous, 7, 0, 4));
}

TEST(SplitTest, RanksAndRoundsDrawDifferentOrders) {
  const auto order = [](int rank, std::int64_t round) {
    return permutation(50, seed_of(1, rank, round));
  };
  EXPECT_EQ(order(1, 2), order(1, 2));
  EXPECT_NE(order(1, 2), order(2, 1));
  EXPECT_NE(order(0, 0), order(0, 1));
}

TEST(SplitTest, AnUnknownSplitIsToldTheKnownOnes) {
  EXPECT_EQ(parse_split("contiguous").value(), Split::contiguous);
  EXPECT_EQ(parse_split("strided").error().what,
            "there is no split 'strided'; there are shuffled, contiguous");
}

}  // namespace
}  // namespace paceline::linear
