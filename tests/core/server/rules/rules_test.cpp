// Closed forms of all rules, under one constant gradient, and laws that all of them keep.
// Also covers paceline/core/server/rules/adam_step.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "paceline/core/base/seed.h"
#include "paceline/core/server/rules/adam_step.h"
#include "paceline/core/server/rules/rule.h"
#include "tests/support/seed.h"

namespace paceline::server {
namespace {

using testing::HasSubstr;

// Flat memory under a rule, in double or float.
template <typename T>
class RuledMemory {
 public:
  RuledMemory(std::string_view rule, std::vector<T> values)
      : choice_(parse_rule(rule).value()),
        values_(std::move(values)),
        slots_(static_cast<std::size_t>(choice_.entry.slots), std::vector<T>(values_.size())) {}

  void step(const std::vector<T>& gradient) {
    std::vector<std::byte*> slots;
    for (auto& slot : slots_) slots.push_back(std::as_writable_bytes(std::span(slot)).data());
    const auto settings = values_of(choice_);
    choice_.entry.step({.dtype = dtype_of<T>(),
                        .count = values_.size(),
                        .value = std::as_writable_bytes(std::span(values_)).data(),
                        .gradient = std::as_bytes(std::span(gradient)).data(),
                        .slots = slots,
                        .number = ++steps_,
                        .settings = settings});
  }
  const std::vector<T>& values() const { return values_; }

 private:
  const RuleChoice choice_;
  std::vector<T> values_;
  std::vector<std::vector<T>> slots_;
  std::int64_t steps_ = 0;
};

// The value after each of so many steps from 1 under a constant gradient.
std::vector<double> constant_gradient(std::string_view rule, double gradient, int steps) {
  RuledMemory<double> memory(rule, {1});
  std::vector<double> values;
  for (int k = 0; k < steps; ++k) {
    memory.step({gradient});
    values.push_back(memory.values()[0]);
  }
  return values;
}

// Expects that step k (from 1) changes the value by -changes(k, value before).
template <typename Changes>
void expect_steps(std::string_view rule, double gradient, const Changes& changes) {
  double value = 1;
  int k = 0;
  for (const double next : constant_gradient(rule, gradient, 40)) {
    EXPECT_NEAR(next, value - changes(++k, value), 1e-12) << rule << ", step " << k;
    value = next;
  }
}

constexpr double kGradient = -0.75;

TEST(Rules, SgdGoesTheRateTimesTheGradient) {
  expect_steps("sgd:rate=0.25", kGradient, [](int, double) { return 0.25 * kGradient; });
  expect_steps("sgd:rate=0.25,weight_decay=0.5", kGradient,
               [](int, double value) { return 0.25 * (kGradient + 0.5 * value); });
}

TEST(Rules, MomentumSumsUpAGeometricSeries) {
  const auto series = [](int k) { return (1 - std::pow(0.9, k)) / (1 - 0.9); };
  expect_steps("sgd:rate=0.1,momentum=0.9", kGradient,
               [&](int k, double) { return 0.1 * kGradient * series(k); });
  expect_steps("sgd:rate=0.1,momentum=0.9,nesterov=on", kGradient,
               [&](int k, double) { return 0.1 * kGradient * (1 + 0.9 * series(k)); });
  expect_steps("sgd:rate=0.1,momentum=0.9,dampening=0.9", kGradient,
               [](int, double) { return 0.1 * kGradient; });
}

TEST(Rules, AdagradFallsWithTheRootOfTheSteps) {
  const double sign = kGradient / std::abs(kGradient);
  expect_steps("adagrad:rate=0.1,epsilon=0", kGradient,
               [&](int k, double) { return 0.1 * sign / std::sqrt(k); });
  expect_steps("adagrad:rate=0.1,rate_decay=0.5,epsilon=0", kGradient,
               [&](int k, double) { return 0.1 * sign / std::sqrt(k) / (1 + 0.5 * (k - 1)); });
}

TEST(Rules, AdamGoesTheRateWhateverTheGradient) {
  for (const double gradient : {1e-3, -0.75, 1e3}) {
    const double sign = gradient / std::abs(gradient);
    expect_steps("adam:rate=0.01,epsilon=0", gradient, [&](int, double) { return 0.01 * sign; });
  }
}

TEST(Rules, AdamwDecaysApartFromTheGradient) {
  expect_steps("adamw:rate=0.01,epsilon=0,weight_decay=0.25", kGradient,
               [](int, double value) { return 0.01 * 0.25 * value - 0.01; });
}

TEST(Rules, RmspropDividesByTheRootOfAMeanOfSquares) {
  expect_steps("rmsprop:rate=0.01,alpha=0.9,epsilon=0", kGradient,
               [](int k, double) { return -0.01 / std::sqrt(1 - std::pow(0.9, k)); });
  expect_steps("rmsprop:rate=0.01,alpha=0.9,epsilon=0,centered=on", kGradient, [](int k, double) {
    const double kept = std::pow(0.9, k);
    return -0.01 / std::sqrt((1 - kept) * kept);  // the mean of squares less the square of the mean
  });
}

TEST(Rules, CenteredRmspropStaysFiniteUnderAConstantGradient) {
  RuledMemory<double> memory("rmsprop:centered=on", {1});
  for (int k = 0; k < 20'000; ++k) memory.step({0.3});
  EXPECT_TRUE(std::isfinite(memory.values()[0]));
}

TEST(Rules, AddTakesPushesAsTheyAre) {
  expect_steps("add", kGradient, [](int, double) { return -kGradient; });
}

// So the cut of a table into ranges changes no bits.
template <typename T>
void expect_elements_apart(std::string_view rule, SeededNumbers& numbers) {
  std::vector<T> first(9);
  for (T& one : first) one = static_cast<T>(numbers.unit() - 0.5);
  RuledMemory<T> whole(rule, first);
  std::vector<RuledMemory<T>> parts;
  for (const T one : first) parts.emplace_back(rule, std::vector<T>{one});
  for (int k = 0; k < 20; ++k) {
    std::vector<T> gradient(first.size());
    for (T& one : gradient) one = static_cast<T>(numbers.unit() - 0.5);
    whole.step(gradient);
    for (std::size_t i = 0; i < first.size(); ++i) {
      parts[i].step({gradient[i]});
      ASSERT_EQ(std::memcmp(&whole.values()[i], &parts[i].values()[0], sizeof(T)), 0) << rule;
    }
  }
}

TEST(Rules, EveryRuleTreatsEachElementAlone) {
  SeededNumbers numbers(test::seed(2880000));
  for (const Rule& rule : built_in_rules()) {
    expect_elements_apart<double>(rule.name, numbers);
    expect_elements_apart<float>(rule.name, numbers);
  }
  for (const char* rule : {"sgd:momentum=0.9,nesterov=on", "rmsprop:momentum=0.5,centered=on"}) {
    expect_elements_apart<double>(rule, numbers);
    expect_elements_apart<float>(rule, numbers);
  }
}

TEST(Rules, UnknownRulesAndSettingsAreToldTheKnownOnes) {
  EXPECT_THAT(parse_rule("adm").error().what,
              testing::AllOf(HasSubstr("no rule 'adm'"), HasSubstr("adagrad, adam, adamw"),
                             HasSubstr("did you mean")));
  EXPECT_THAT(parse_rule("adam:betas=1").error().what, HasSubstr("beta1, beta2"));
  EXPECT_EQ(adam_settings(0).size(), parse_rule("adam").value().entry.settings.size());
}

}  // namespace
}  // namespace paceline::server
