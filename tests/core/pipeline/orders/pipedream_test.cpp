#include <gtest/gtest.h>

#include "paceline/core/pipeline/check/simulate_order.h"
#include "tests/core/pipeline/orders.h"

namespace paceline::pipeline {
namespace {

TEST(PipedreamSchedule, WorksMoreOfTheTimeTheMoreBatchesThereAre) {
  const std::pair<int, double> published[] = {{10, .769}, {100, .971}, {1000, .997}};
  for (const auto& [batches, share] : published) {
    const Order order = testing::order_of("pipedream", 4, batches);
    const auto run = simulate_order(order, equal_costs(order, {1, 1, 1})).value();
    EXPECT_NEAR(1 - run.idle_share, share, 5e-4);
  }
}

TEST(PipedreamSchedule, BothWaysToKeepVersionsHaveTheSameOrder) {
  EXPECT_EQ(testing::order_of("pipedream:sync=vertical", 4, 9),
            testing::order_of("pipedream", 4, 9));
}

}  // namespace
}  // namespace paceline::pipeline
