#include "paceline/torch/strategy/local/forecast.h"

#include <gtest/gtest.h>

#include "paceline/torch/strategy/strategy.h"
#include "tests/support/local_world.h"

namespace paceline::strategy {
namespace {

using Overlap = Traffic::Overlap;

// An exchange takes as many seconds as it has elements.
double step_of(const std::vector<Traffic>& traffic, double compute) {
  return seconds_per_step(traffic, compute, [](const Traffic& one) { return one.elements; });
}

std::vector<Traffic> traffic_of(const std::string& text, int ranks) {
  const StrategyChoice choice = parse_strategy(text).value();
  return choice.strategy.traffic(choice.settings, {.elements = 1e6, .ranks = ranks});
}

TEST(StepForecast, IsTheComputationAloneWhereNothingIsExchanged) {
  EXPECT_EQ(step_of({}, 3), 3);
  EXPECT_EQ(step_of(traffic_of("none", 4), 3), 3);
}

TEST(StepForecast, SpreadsAnExchangeThatTrainingWaitsForOverItsPeriod) {
  EXPECT_DOUBLE_EQ(step_of({{.elements = 4, .every = 8}}, 3), 3 + 4.0 / 8);
  EXPECT_DOUBLE_EQ(step_of({{.elements = 4}, {.elements = 2, .every = 2}}, 3), 3 + 4 + 1);
}

TEST(StepForecast, AddsOnlyWhatSticksOutOfTheComputationThatHidesIt) {
  EXPECT_DOUBLE_EQ(step_of({{.elements = 2, .overlap = Overlap::backward}}, 3), 3);
  EXPECT_DOUBLE_EQ(step_of({{.elements = 5, .overlap = Overlap::backward}}, 3), 1 + 5);
  EXPECT_DOUBLE_EQ(step_of({{.elements = 3, .overlap = Overlap::step}}, 3), 3);
  EXPECT_DOUBLE_EQ(step_of({{.elements = 5, .overlap = Overlap::step}}, 3), 5);
  EXPECT_DOUBLE_EQ(step_of({{.elements = 5, .every = 4, .overlap = Overlap::step}}, 3), 3 + 0.5);
}

TEST(StepForecast, LetsTwoMessagesShareTheComputationBehindWhichBothHide) {
  const Traffic two{.elements = 2, .overlap = Overlap::step};
  EXPECT_DOUBLE_EQ(step_of({two, two}, 3), 4);
  EXPECT_DOUBLE_EQ(step_of({two, {.elements = 2, .overlap = Overlap::backward}}, 3), 3);
}

TEST(StepForecast, NeverLiesBelowTheComputationAndFallsWithThePeriod) {
  for (const Strategy& strategy : strategies()) {
    const StrategyChoice defaults{strategy, standard_settings(strategy.settings)};
    const auto traffic = strategy.traffic(defaults.settings, {.elements = 10, .ranks = 5});
    EXPECT_GE(step_of(traffic, 2), 2) << strategy.name;
  }
  EXPECT_LT(step_of(traffic_of("local_sgd:period=16", 4), 3),
            step_of(traffic_of("local_sgd:period=8", 4), 3));
}

TEST(StepForecast, PricesExchangesByTheModelOfTheGroup) {
  test::run_ranks(4, [](Job& job) {
    const auto price = price_on(job.world(), Dtype::f32);
    const auto dearest = [&](const std::string& text) { return price(traffic_of(text, 4)[0]); };
    EXPECT_EQ(dearest("local_sgd"),
              job.world().forecasts(Operation::all_reduce, 4000000)[0].seconds);
    const double one = dearest("gossip:graph=one_peer");
    EXPECT_GT(one, 0);
    EXPECT_DOUBLE_EQ(dearest("gossip:graph=ring"), 2 * one) << "two neighbours";
  });
  test::run_ranks(1, [](Job& job) {
    EXPECT_EQ(price_on(job.world(), Dtype::f32)({.elements = 1e6}), 0) << "nobody else is there";
  });
}

}  // namespace
}  // namespace paceline::strategy
