#include <gtest/gtest.h>

#include "paceline/core/pipeline/order/turns.h"
#include "tests/core/pipeline/orders.h"

namespace paceline::pipeline {
namespace {

TEST(Pipedream2bwSchedule, ItsMicroBatchesGoOnOverTheBatches) {
  const auto choice = parse_schedule("pipedream_2bw").value();
  EXPECT_EQ(make_order(choice, 4, 5, 7).value(), order_of_turns(4, 35));
}

TEST(Pipedream2bwSchedule, TakesOneMicroBatchLessThanRanksButNotTwo) {
  const auto choice = parse_schedule("pipedream_2bw").value();
  EXPECT_TRUE(make_order(choice, 4, 3).has_value());
  EXPECT_FALSE(make_order(choice, 4, 2).has_value());
}

}  // namespace
}  // namespace paceline::pipeline
