#include "paceline/core/pipeline/check/simulate_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/pipeline/orders.h"

namespace paceline::pipeline {
namespace {

using ::testing::HasSubstr;

TEST(SimulateOrder, ALatencyIsPaidOnceOnTheWayThroughAndOnceBack) {
  const Order order = testing::order_of("gpipe", 3, 1);
  PipelineCosts costs = equal_costs(order, {1, 1, 0});
  costs.latency = 0.25;
  EXPECT_NEAR(simulate_order(order, costs).value().makespan, 6 + 4 * 0.25, 1e-12);
}

// Stage 0 has computed all micro-batches before the first has crossed the cut, so the cut's rate
// decides: 4 messages of 2 s, then the last stage's work, then the last gradient's way back.
TEST(SimulateOrder, MessagesOfOneDirectionTravelOneAfterTheOther) {
  const Order order = testing::order_of("gpipe", 2, 4);
  PipelineCosts costs{.stages = {{.25, 0, 0}, {.25, 0, 0}}};
  costs.bytes_per_second = 100;
  costs.cut_bytes = {200};
  const auto run = simulate_order(order, costs).value();
  EXPECT_NEAR(run.ranks[1][3].end, .25 + 4 * 2 + .25, 1e-12);
  EXPECT_NEAR(run.makespan, .25 + 4 * 2 + .25 + 4 * 2, 1e-12);
}

TEST(SimulateOrder, BetweenChunksOfOneRankNothingIsSent) {
  const Order order = testing::order_of("interleaved:chunks=3", 1, 2);
  PipelineCosts costs = equal_costs(order, {3, 3, 3});
  costs.latency = 10;
  const auto run = simulate_order(order, costs).value();
  EXPECT_NEAR(run.makespan, 18, 1e-12);
  EXPECT_NEAR(run.idle_share, 0, 1e-12);
}

TEST(SimulateOrder, OperationsOfARankFollowEachOtherAndTheirInputs) {
  for (const auto& one : testing::order_cases(4, 6)) {
    PipelineCosts costs = equal_costs(one.order, {1, 2, 1});
    costs.latency = 0.5;
    const auto run = simulate_order(one.order, costs).value();
    std::map<Operation, OperationTime> times;
    for (const auto& own : run.ranks) {
      double clock = 0;
      for (const OperationTime& time : own) {
        EXPECT_GE(time.begin, clock);
        clock = time.end;
        times.emplace(time.operation, time);
      }
    }
    for (const auto& [operation, time] : times)
      for (const Operation& input : inputs_of(operation, one.order.stages))
        EXPECT_GE(time.begin, times.at(input).end) << one.text();
  }
}

TEST(SimulateOrder, WrongCostsAndOrdersAreRefused) {
  const Order order = testing::order_of("1f1b", 3, 2);
  EXPECT_THAT(simulate_order(order, {.stages = {{1, 1, 1}}}).error().what,
              HasSubstr("the order has 3 stages, and there are times for 1"));
  PipelineCosts costs = equal_costs(order, {1, 1, 1});
  costs.cut_bytes = {1, 2, 3};
  EXPECT_THAT(simulate_order(order, costs).error().what, HasSubstr("2 cuts"));
  Order broken = order;
  broken.ranks[0].pop_back();
  EXPECT_THAT(simulate_order(broken, equal_costs(broken, {1, 1, 1})).error().what,
              HasSubstr("no rank computes"));
}

}  // namespace
}  // namespace paceline::pipeline
