#include <gtest/gtest.h>

#include "paceline/core/pipeline/check/check_order.h"
#include "paceline/core/pipeline/check/simulate_order.h"
#include "tests/core/pipeline/orders.h"

namespace paceline::pipeline {
namespace {

TEST(OneFOneBSchedule, OfFourRanksAndEightMicroBatchesHasThePublishedFigures) {
  const Order order = testing::order_of("1f1b", 4, 8);
  const auto run = simulate_order(order, equal_costs(order, {1, 1, 1})).value();
  EXPECT_EQ(run.makespan, 33);
  EXPECT_NEAR(run.idle_share, 3.0 / 11, 1e-12);
  EXPECT_EQ(peak_live(order), (std::vector<int>{4, 3, 2, 1}));
}

TEST(OneFOneBSchedule, FewerMicroBatchesThanStagesAreAnOrderToo) {
  const Order order = testing::order_of("1f1b", 4, 2);
  EXPECT_TRUE(check_order(order).has_value());
  EXPECT_EQ(peak_live(order), (std::vector<int>{2, 2, 2, 1}));
}

}  // namespace
}  // namespace paceline::pipeline
