#include <gtest/gtest.h>

#include <algorithm>

#include "paceline/core/base/seed.h"
#include "paceline/core/pipeline/check/simulate_order.h"
#include "tests/core/pipeline/orders.h"
#include "tests/support/seed.h"

namespace paceline::pipeline {
namespace {

TEST(ZeroBubbleSchedule, ItsClosedFormHoldsForRandomCostsRanksAndMicroBatches) {
  SeededNumbers numbers(test::seed(4102));
  for (int round = 0; round < 400; ++round) {
    const int ranks = 1 + static_cast<int>(numbers.below(8));
    const int m = 1 + static_cast<int>(numbers.below(24));
    const auto draw = [&] { return static_cast<double>(1 + numbers.below(8)); };
    const StageSeconds seconds{draw(), draw(), draw()};
    const Order order = testing::order_of("zero_bubble", ranks, m);
    const auto run = simulate_order(order, equal_costs(order, seconds)).value();
    const double shortest = std::min({seconds.forward, seconds.backward, seconds.weight});
    EXPECT_NEAR(
        run.makespan - m * seconds.sum(),
        (ranks - 1) * (seconds.forward + seconds.backward) - (std::min(ranks, m) - 1) * shortest,
        1e-9)
        << ranks << " ranks, m " << m;
  }
}

TEST(ZeroBubbleSchedule, WaitsLessThan1f1bByTheWeightsGradientTwice) {
  const Order split = testing::order_of("zero_bubble", 4, 8);
  const auto run = simulate_order(split, equal_costs(split, {1, 1, 1})).value();
  EXPECT_EQ(run.makespan, 27);
}

}  // namespace
}  // namespace paceline::pipeline
