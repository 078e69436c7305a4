#include "paceline/linear/loss/loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "paceline/core/base/seed.h"
#include "paceline/linear/loss/pinball.h"
#include "tests/support/seed.h"

namespace paceline::linear {
namespace {

constexpr int kDraws = 60;

// A loss with a drawn setting, and a label that it can take.
struct DrawnLoss {
  ChosenLoss loss;
  double label = 0;
};

DrawnLoss draw(const Loss& entry, SeededNumbers& numbers) {
  Settings settings = standard_settings(entry.settings);
  for (Settings::Value& one : settings.values) one.value = 0.1 + 0.8 * numbers.unit();
  const double label =
      entry.labels == Labels::signs ? (numbers.below(2) == 0 ? -1 : 1) : 4 * numbers.unit() - 2;
  return {ChosenLoss({entry, settings}), label};
}

// The interval of dual variables between the two slopes of the loss far out.
std::pair<double, double> dual_domain(const DrawnLoss& one) {
  constexpr double kFar = 50;
  return {-one.loss.derivative(kFar, one.label), -one.loss.derivative(-kFar, one.label)};
}

// Golden section search, which needs no derivative.
double maximum_of(const auto& function, double low, double high) {
  constexpr double kGolden = 0.6180339887498949;
  for (int i = 0; i < 120; ++i) {
    const double a = high - kGolden * (high - low), b = low + kGolden * (high - low);
    (function(a) < function(b) ? low : high) = function(a) < function(b) ? a : b;
  }
  return function((low + high) / 2);
}

TEST(LossTest, TheClosedFormMaximisesTheDualAlongACoordinate) {
  SeededNumbers numbers(test::seed(1));
  for (const Loss& entry : built_in_losses()) {
    for (int i = 0; i < kDraws; ++i) {
      const DrawnLoss one = draw(entry, numbers);
      const auto [low, high] = dual_domain(one);
      const DualCoordinate at{.dual = low + numbers.unit() * (high - low),
                              .label = one.label,
                              .prediction = 4 * numbers.unit() - 2,
                              .curvature = std::pow(10, 4 * numbers.unit() - 2)};
      const auto dual = [&](double a) {
        const double moved = a - at.dual;
        return one.loss.dual_value(a, at.label) - moved * at.prediction -
               at.curvature * moved * moved / 2;
      };
      const double found = one.loss.dual_maximum(at);
      EXPECT_GE(found, low - 1e-12) << entry.name;
      EXPECT_LE(found, high + 1e-12) << entry.name;
      EXPECT_NEAR(dual(found), maximum_of(dual, low, high), 1e-9) << entry.name;
    }
  }
}

// Fenchel and Young: -l*(-a) <= l(z) + a z for every z, with equality at a = -l'(z).
TEST(LossTest, TheDualValueIsTheConjugateAndTheDerivativeTouchesIt) {
  SeededNumbers numbers(test::seed(2));
  for (const Loss& entry : built_in_losses()) {
    for (int i = 0; i < kDraws; ++i) {
      const DrawnLoss one = draw(entry, numbers);
      const double z = 6 * numbers.unit() - 3, other = 6 * numbers.unit() - 3;
      const double a = -one.loss.derivative(z, one.label);
      const double dual = one.loss.dual_value(a, one.label);
      EXPECT_NEAR(dual, one.loss.value(z, one.label) + a * z, 1e-12) << entry.name;
      EXPECT_LE(dual, one.loss.value(other, one.label) + a * other + 1e-12) << entry.name;
    }
  }
}

TEST(LossTest, TheDerivativeIsNoSteeperThanTheSmoothness) {
  for (const Loss& entry : built_in_losses()) {
    const ChosenLoss loss = parse_loss(entry.name).value();
    constexpr double kStep = 1e-3;
    double steepest = 0;
    for (double z = -2; z < 2; z += kStep / 2)
      steepest =
          std::max(steepest, (loss.derivative(z + kStep, 1) - loss.derivative(z, 1)) / kStep);
    if (loss.is_smooth()) {
      EXPECT_NEAR(steepest, loss.smoothness(), 1e-6) << entry.name;
    } else {
      EXPECT_GT(steepest, 0.9 / kStep) << entry.name;  // a jump of 1 or more
    }
  }
}

TEST(LossTest, ARowWithoutEntriesGetsItsBestDualVariableAtOnce) {
  const auto best = [](std::string_view loss, double label) {
    return parse_loss(loss).value().dual_maximum({.dual = 0, .label = label});
  };
  EXPECT_EQ(best("hinge", -1), -1);
  EXPECT_EQ(best("smooth_hinge", 1), 1);
  EXPECT_NEAR(best("logistic", -1), -0.5, 1e-12);
  EXPECT_EQ(best("squared", 2), 2);
  EXPECT_EQ(best("absolute", -2), -1);
  EXPECT_EQ(best("quantile:tau=0.8", 2), 0.8);
}

TEST(LossTest, ThePinballCostsItsSlopesOnBothSides) {
  constexpr Slopes kSlopes{.low = -0.25, .high = 0.75};
  EXPECT_EQ(pinball_value(kSlopes, 1, 3), 2 * 0.75);  // the prediction is too low
  EXPECT_EQ(pinball_value(kSlopes, 3, 1), 2 * 0.25);
  EXPECT_EQ(pinball_derivative(kSlopes, 1, 3), -0.75);
  EXPECT_EQ(pinball_derivative(kSlopes, 3, 1), 0.25);
  EXPECT_EQ(pinball_derivative(kSlopes, 1, 1), 0);
}

TEST(LossTest, LogisticSolvesEveryDrawOfItsEquation) {
  SeededNumbers numbers(test::seed(4));
  const ChosenLoss loss = parse_loss("logistic").value();
  for (int i = 0; i < 2000; ++i) {
    const double b0 = numbers.unit(), m = 18 * numbers.unit() - 9;
    const double q = std::pow(10, 6 * numbers.unit() - 3);
    const double b = loss.dual_maximum({.dual = b0, .label = 1, .prediction = m, .curvature = q});
    if (b < 1e-9 || b > 1 - 1e-9) continue;
    EXPECT_LT(std::abs(std::log(b / (1 - b)) + m + q * (b - b0)) / (1 + q), 1e-7);
  }
}

TEST(LossTest, AnUnknownLossIsToldTheKnownOnes) {
  const auto unknown = parse_loss("smooth_hing");
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().what,
              testing::AllOf(testing::HasSubstr("no loss 'smooth_hing'"),
                             testing::HasSubstr("absolute, hinge, logistic, quantile"),
                             testing::HasSubstr("did you mean smooth_hinge")));
  const auto setting = parse_loss("hinge:gamma=1");
  ASSERT_FALSE(setting);
  EXPECT_THAT(setting.error().what, testing::HasSubstr("hinge has no setting 'gamma'"));
  EXPECT_EQ(parse_loss("smooth_hinge").value().text(), "smooth_hinge:gamma=1");
}

}  // namespace
}  // namespace paceline::linear
