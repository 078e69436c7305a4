#include "paceline/torch/strategy/local/adacomm_rule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "tests/support/seed.h"

namespace paceline::strategy {
namespace {

std::vector<int> periods(int start, const std::vector<double>& losses,
                         const std::vector<double>& rates = {}) {
  AdaCommRule rule{.start = start};
  std::vector<int> all = {start};
  rule.begin(losses[0], rates.empty() ? 1 : rates[0]);
  for (std::size_t l = 1; l < losses.size(); ++l)
    all.push_back(rule.next(all.back(), losses[l], rates.empty() ? 1 : rates[l]));
  return all;
}

TEST(AdaCommRule, GivesThePeriodsOfThePaper) {
  EXPECT_EQ(periods(16, {1, 1, 1, 1, 1, 1}), (std::vector<int>{16, 8, 4, 2, 1, 1}));
  EXPECT_EQ(periods(16, {1, 0}), (std::vector<int>{16, 1}));
  // A learning rate that falls may make the period longer.
  EXPECT_EQ(periods(16, {1, .25, .2}, {1, 1, .1}), (std::vector<int>{16, 8, 23}));
}

TEST(AdaCommRule, NeverGrowsAtOneLearningRateAndStaysAtOne) {
  std::mt19937_64 numbers(test::seed(5));
  std::lognormal_distribution<double> draw(0, 0.7);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<double> losses;
    for (int l = 0; l < 40; ++l) losses.push_back(draw(numbers) * (1 - l / 41.0));
    for (const int start : {1, 8, 16, 32}) {
      const std::vector<int> all = periods(start, losses);
      for (std::size_t l = 1; l < all.size(); ++l) {
        EXPECT_GE(all[l], 1);
        EXPECT_LE(all[l], all[l - 1]);
      }
    }
  }
}

}  // namespace
}  // namespace paceline::strategy
