#include "paceline/core/pipeline/order/turns.h"

#include <gtest/gtest.h>

#include <iterator>

#include "paceline/core/pipeline/check/check_order.h"
#include "paceline/core/pipeline/check/simulate_order.h"

namespace paceline::pipeline {
namespace {

using Operations = std::vector<Operation>;

TEST(Turns, AfterTheWarmUpEachForwardIsFollowedByTheOldestBackward) {
  const Turns turns{.stage = 1, .warm_up = 2};
  EXPECT_EQ(turns.turn(1), (Operations{{Kind::forward, 1, 1}}));
  EXPECT_EQ(turns.turn(2), (Operations{{Kind::forward, 1, 2}, {Kind::backward, 1, 0}}));
  EXPECT_EQ(turns.drain(4), (Operations{{Kind::backward, 1, 2}, {Kind::backward, 1, 3}}));
  EXPECT_EQ(turns.drain(1), (Operations{{Kind::backward, 1, 0}}));
}

TEST(Turns, SoManyTurnsAndTheirDrainAreAnOrderOfThatManyMicroBatches) {
  for (int rank = 0; rank < 4; ++rank) {
    const Turns turns = turns_of({.ranks = 4, .stages = 4}, rank);
    for (int m = 1; m <= 9; ++m) {
      Operations all;
      for (int own = 0; own < m; ++own) std::ranges::copy(turns.turn(own), std::back_inserter(all));
      std::ranges::copy(turns.drain(m), std::back_inserter(all));
      EXPECT_EQ(all, order_of_turns(4, m).ranks[static_cast<std::size_t>(rank)]);
    }
  }
}

const std::vector<std::vector<int>> kReplicas = {{1, 1, 1, 1}, {2, 1},    {3, 1},   {15, 1},
                                                 {2, 1, 1},    {1, 2},    {2, 2},   {4, 2, 1},
                                                 {3, 2},       {1, 3, 2}, {2, 3, 4}};

TEST(Turns, NoRankHasMoreInFlightThanItsLimit) {
  EXPECT_EQ(in_flight_limits({1, 1, 1, 1}), (std::vector<int>{4, 3, 2, 1}));
  EXPECT_EQ(in_flight_limits({4, 2, 1}), (std::vector<int>{2, 2, 1}));
  for (const auto& replicas : kReplicas) {
    const auto limits = in_flight_limits(replicas);
    const Order order = order_of_turns(replicas, 60);
    EXPECT_TRUE(check_order(order).has_value());
    const auto peaks = peak_live(order);
    for (std::size_t stage = 0, rank = 0; stage < replicas.size(); ++stage)
      for (int i = 0; i < replicas[stage]; ++i) EXPECT_EQ(peaks[rank++], limits[stage]);
  }
}

// The shapes whose stages' times fit their replicas run at the rate of the slowest stage.
TEST(Turns, ReplicasReachTheRateOfTheSlowestStage) {
  const std::vector<std::pair<std::vector<int>, std::vector<double>>> shapes = {
      {{1, 1, 1, 1}, {1, 1, 1, 1}}, {{2, 1}, {2, 1}},       {{3, 1}, {3, 1}}, {{15, 1}, {15, 1}},
      {{2, 1, 1}, {2, 1, 1}},       {{4, 2, 1}, {4, 2, 1}}, {{1, 2}, {1, 2}}, {{2, 2}, {1, 1}}};
  for (const auto& [replicas, times] : shapes) {
    PipelineCosts costs;
    double period = 0;
    for (std::size_t stage = 0; stage < times.size(); ++stage) {
      costs.stages.push_back({times[stage] / 3, 2 * times[stage] / 3, 0});
      period = std::max(period, times[stage] / replicas[stage]);
    }
    const int some = 120 * replicas.front(), more = 240 * replicas.front();
    const auto seconds = [&](int micro_batches) {
      return simulate_order(order_of_turns(replicas, micro_batches), costs).value().makespan;
    };
    EXPECT_NEAR((seconds(more) - seconds(some)) / (more - some) / period, 1, 0.02)
        << ::testing::PrintToString(replicas);
  }
}

}  // namespace
}  // namespace paceline::pipeline
