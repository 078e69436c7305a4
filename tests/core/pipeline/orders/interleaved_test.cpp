#include <gtest/gtest.h>

#include "paceline/core/pipeline/check/check_order.h"
#include "paceline/core/pipeline/check/simulate_order.h"
#include "tests/core/pipeline/orders.h"

namespace paceline::pipeline {
namespace {

TEST(InterleavedSchedule, OfFourRanksAndEightMicroBatchesHasThePublishedFigures) {
  const auto seconds = [](const Order& order) {
    return simulate_order(order, equal_costs(order, {1, 1, 1})).value().makespan;
  };
  const Order two = testing::order_of("interleaved:chunks=2", 4, 8);
  EXPECT_NEAR(seconds(two), 28.5, 1e-9);
  EXPECT_NEAR(seconds(testing::order_of("interleaved:chunks=3", 4, 8)), 27, 1e-9);
  EXPECT_EQ(peak_live(two), (std::vector<int>{11, 9, 7, 5}));
}

// A batch crosses S - 1 cuts each way: (P V - 1) / (P - 1) times as many as with one chunk.
TEST(InterleavedSchedule, SendsEachMicroBatchOverEveryCutOnce) {
  const Order order = testing::order_of("interleaved:chunks=3", 4, 8);
  int sent = 0;
  for (std::size_t rank = 0; rank < order.ranks.size(); ++rank) {
    for (const Operation& operation : order.ranks[rank]) {
      const auto next = successor_of(operation, order.stages);
      if (next && order.placement().rank_of(next->stage, 0) != static_cast<int>(rank)) ++sent;
    }
  }
  EXPECT_EQ(sent, 2 * 8 * (4 * 3 - 1));
}

}  // namespace
}  // namespace paceline::pipeline
