#include <gtest/gtest.h>

#include "paceline/core/pipeline/check/simulate_order.h"
#include "tests/core/pipeline/orders.h"

namespace paceline::pipeline {
namespace {

// A rank works for one P-th of the time, whatever the stages take.
TEST(SequentialSchedule, TakesTheSumOfAllStagesForEachMicroBatch) {
  const Order order = testing::order_of("sequential", 3, 4);
  const auto run = simulate_order(order, {.stages = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}}).value();
  EXPECT_EQ(run.makespan, 4 * 45);
  EXPECT_NEAR(run.idle_share, 2.0 / 3, 1e-12);
}

}  // namespace
}  // namespace paceline::pipeline
