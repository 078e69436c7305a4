#include "paceline/core/base/seed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

namespace paceline {
namespace {

TEST(SeededNumbers, AreThoseOfSplitmix64) {
  // The reference implementation (prng.di.unimi.it) from the state 1234567.
  SeededNumbers numbers(1234567);
  EXPECT_EQ(numbers.next(), 6457827717110365317u);
  EXPECT_EQ(numbers.next(), 3203168211198807973u);
  EXPECT_EQ(numbers.next(), 9817491932198370423u);
}

TEST(SeededNumbers, AreTheSameForTheSameSeed) {
  SeededNumbers a(5), b(5), c(6);
  for (int i = 0; i < 100; ++i) {
    const auto value = a.next();
    EXPECT_EQ(value, b.next());
    EXPECT_NE(value, c.next());
  }
}

TEST(SeededNumbers, StayBelowTheirBoundAndReachAllOfIt) {
  SeededNumbers numbers(1);
  for (const std::uint64_t bound : {1u, 2u, 3u, 10u}) {
    std::set<std::uint64_t> seen;
    for (int i = 0; i < 1000; ++i) seen.insert(numbers.below(bound));
    EXPECT_EQ(seen.size(), bound);
    EXPECT_LT(*seen.rbegin(), bound);
  }
}

TEST(SeededNumbers, UnitIsSpreadEvenlyOverZeroToOne) {
  SeededNumbers numbers(2);
  int lower = 0;
  for (int i = 0; i < 10000; ++i) {
    const double value = numbers.unit();
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    lower += value < 0.5 ? 1 : 0;
  }
  EXPECT_NEAR(lower, 5000, 250);  // five standard deviations
}

TEST(SeededNumbers, DriveTheStandardLibrary) {
  std::vector<int> order(100);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::shuffle(order, SeededNumbers(3));
  EXPECT_FALSE(std::ranges::is_sorted(order));
}

TEST(Mix, DependsOnTheValuesAndTheirOrder) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t a = 0; a < 30; ++a) {
    for (std::uint64_t b = 0; b < 30; ++b) seen.insert(mix(mix(0, a), b));
  }
  EXPECT_EQ(seen.size(), 900u);
  EXPECT_EQ(mix(7, 8), mix(7, 8));
}

}  // namespace
}  // namespace paceline
