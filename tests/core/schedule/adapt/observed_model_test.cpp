#include "paceline/core/schedule/adapt/observed_model.h"

#include <gtest/gtest.h>

#include <numeric>

#include "paceline/core/base/seed.h"
#include "tests/support/seed.h"

namespace paceline::schedule {
namespace {

// The steps that a model would show: forward, then the gradients one after the other.
ObservedStep step_of(const Model& model, const std::vector<int>& order) {
  ObservedStep step{.arrived = order, .arrived_at = {}, .update = model.update()};
  double now = model.forward();
  for (int place = 0; place < model.size(); ++place)
    step.arrived_at.push_back(now += model.sent(place).backward);
  return step;
}

TEST(ObservedModel, OfAModelsOwnStepsHasItsReadyTimesUpdateAndBytes) {
  SeededNumbers numbers(test::seed(3));
  for (int round = 0; round < 50; ++round) {
    const int tensors = 2 + static_cast<int>(numbers.below(20));
    std::vector<int> order(static_cast<std::size_t>(tensors));
    std::iota(order.rbegin(), order.rend(), 0);
    Model model{.name = "true", .tensors = {}};
    for (int i = 0; i < tensors; ++i) {
      model.tensors.push_back({.bytes = 4 * (1 + numbers.below(1000)),
                               .forward = 1e-3 * static_cast<double>(1 + numbers.below(9)),
                               .backward = 1e-3 * static_cast<double>(1 + numbers.below(9)),
                               .update = 1e-4});
    }
    const ObservedStep step = step_of(model, order);
    const Model observed = observed_model(model.tensors, order, {{step}});
    const auto expected = ready_times(model), got = ready_times(observed);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-12);
    EXPECT_NEAR(observed.update(), model.update(), 1e-12);
    EXPECT_EQ(sent_bytes(observed), sent_bytes(model));
  }
}

TEST(ObservedModel, TakesTheQuickestOfTheStepsInWhichMostGradientsCame) {
  const std::vector<Tensor> tensors = {{.bytes = 4}, {.bytes = 8}};
  const std::vector<int> order = {1, 0};
  const std::vector<ObservedStep> steps = {{.arrived = {1}, .arrived_at = {0.1}},
                                           {.arrived = {1, 0}, .arrived_at = {3, 9}},
                                           {.arrived = {1, 0}, .arrived_at = {2, 4}},
                                           {.arrived = {1, 0}, .arrived_at = {2, 5}}};
  const Model model = observed_model(tensors, order, steps);
  EXPECT_EQ(ready_times(model), (std::vector<double>{2, 4}));
  EXPECT_EQ(model.tensors[0].bytes, 4u);
}

TEST(ObservedModel, WithoutAnyGradientHasSizesAlone) {
  const std::vector<int> order = {1, 0};
  const Model model = observed_model({{.bytes = 4}, {.bytes = 8}}, order, {});
  EXPECT_EQ(model.compute(), 0);
  EXPECT_EQ(model.bytes(), 12u);
}

}  // namespace
}  // namespace paceline::schedule
