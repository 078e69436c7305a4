#include "paceline/core/compress/kernels/permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "paceline/core/base/crc32c.h"
#include "paceline/core/base/result.h"
#include "tests/support/every_target.h"

namespace paceline::compress {
namespace {

using Indices = std::vector<std::uint32_t>;

TEST(RandomIndices, AreTheModels) {
  EXPECT_EQ(random_indices(100, 10, 7, 5, 3), (Indices{3, 15, 32, 33, 51, 57, 63, 87, 88, 95}));
  struct Row {
    std::size_t elements, count;
    std::uint32_t checksum;
  };
  const Row rows[] = {{2, 1, 0x48674bc7},     {3, 2, 0x7a73ec2c},       {100, 37, 0xa516b848},
                      {1003, 51, 0xa491f754}, {4096, 4096, 0x265af124}, {70000, 700, 0xc27c9fc6}};
  test::for_each_target([&] {
    for (const Row& row : rows) {
      const auto indices = random_indices(row.elements, row.count, 0x1122334455667788, 77, 5);
      EXPECT_EQ(crc32c(std::as_bytes(std::span(indices))), row.checksum) << row.elements;
    }
  });
}

TEST(RandomIndices, AreDifferentAscendingAndBelowTheCount) {
  for (std::size_t n = 0; n <= 300; ++n) {
    for (std::size_t count = 0; count <= n; count += 1 + n / 5) {
      const auto indices = random_indices(n, count, n, 1, 2);
      ASSERT_EQ(indices.size(), count);
      ASSERT_TRUE(std::ranges::is_sorted(indices, std::ranges::less_equal()) || count < 2);
      ASSERT_EQ(std::ranges::adjacent_find(indices), indices.end());
      ASSERT_TRUE(indices.empty() || indices.back() < n);
    }
  }
}

TEST(RandomIndices, DrawEveryElementAlike) {
  constexpr std::size_t kElements = 1000, kCount = 100;
  constexpr std::uint32_t kDraws = 3000;
  std::vector<int> drawn(kElements);
  for (std::uint32_t step = 0; step < kDraws; ++step)
    for (const std::uint32_t i : random_indices(kElements, kCount, 7, 0, step)) ++drawn[i];
  const double expected = kDraws * 0.1, deviation = std::sqrt(kDraws * 0.1 * 0.9);
  for (const int times : drawn) EXPECT_LT(std::abs(times - expected) / deviation, 5);
}

// A test of few elements, which 6 rounds fail by 37 standard deviations.
TEST(RandomIndices, DrawEveryPairAlike) {
  constexpr std::uint32_t kDraws = 20000;
  for (const std::size_t n : {5, 9, 12}) {
    std::vector<int> drawn(n * n);
    for (std::uint32_t step = 0; step < kDraws; ++step) {
      const auto pair = random_indices(n, 2, 8, 0, step);
      ++drawn[pair[0] * n + pair[1]];
    }
    const double pairs = static_cast<double>(n * (n - 1) / 2), expected = kDraws / pairs;
    double chi = 0;
    for (std::size_t a = 0; a < n; ++a)
      for (std::size_t b = a + 1; b < n; ++b)
        chi += std::pow(drawn[a * n + b] - expected, 2) / expected;
    EXPECT_LT((chi - (pairs - 1)) / std::sqrt(2 * (pairs - 1)), 5) << n << " elements";
  }
}

TEST(RandomIndices, AreNoMoreThanThereAre) {
  EXPECT_THROW((void)random_indices(5, 6, 1, 1, 1), Error);
}

}  // namespace
}  // namespace paceline::compress
