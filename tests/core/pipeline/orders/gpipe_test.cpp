#include <gtest/gtest.h>

#include <algorithm>

#include "paceline/core/pipeline/check/check_order.h"
#include "paceline/core/pipeline/check/simulate_order.h"
#include "tests/core/pipeline/orders.h"

namespace paceline::pipeline {
namespace {

TEST(GpipeSchedule, AscendingBackwardsTakeTheTimeAndTheMemoryOfDescendingOnes) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (int m = 1; m <= 24; ++m) {
      const Order ascending = testing::order_of("gpipe", ranks, m);
      Order descending = ascending;
      for (auto& own : descending.ranks) std::reverse(own.begin() + m, own.end());
      const auto seconds = [](const Order& order) {
        return simulate_order(order, equal_costs(order, {1, 2, 2})).value().makespan;
      };
      EXPECT_NEAR(seconds(ascending), seconds(descending), 1e-9) << ranks << " ranks, m " << m;
      EXPECT_EQ(peak_live(ascending), peak_live(descending));
    }
  }
}

}  // namespace
}  // namespace paceline::pipeline
