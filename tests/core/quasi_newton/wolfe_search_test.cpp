#include "paceline/core/quasi_newton/wolfe_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

namespace paceline::quasi_newton {
namespace {

// A function with a derivative, and how a search along it ends.
struct Line {
  std::function<double(double)> value, slope;
  LinePoint at(double step) const { return {step, value(step), slope(step)}; }
  WolfeResult search(double first) const {
    return wolfe_search([this](double step) { return at(step); }, at(0), first);
  }
  void expect_wolfe(double first) const {
    const WolfeResult result = search(first);
    const LinePoint start = at(0), end = result.point;
    EXPECT_TRUE(result.found) << "first step " << first;
    EXPECT_LE(end.value, start.value + 1e-4 * end.step * start.slope) << "first step " << first;
    EXPECT_LE(std::fabs(end.slope), 0.9 * std::fabs(start.slope)) << "first step " << first;
    EXPECT_LE(result.evaluations, 25);
  }
};

TEST(WolfeSearch, EndsWhereBothConditionsHoldWhateverTheFirstStep) {
  // The functions of More and Thuente (1994), figures 1 and 2, and a parabola.
  const double b = 2;
  const Line first{[=](double t) { return -t / (t * t + b); },
                   [=](double t) { return (t * t - b) / ((t * t + b) * (t * t + b)); }};
  const Line second{
      [](double t) { return std::pow(t + 0.004, 5) - 2 * std::pow(t + 0.004, 4); },
      [](double t) { return 5 * std::pow(t + 0.004, 4) - 8 * std::pow(t + 0.004, 3); }};
  const Line parabola{[](double t) { return (t - 3) * (t - 3); },
                      [](double t) { return 2 * (t - 3); }};
  for (const double step : {1e-3, 1e-1, 1e1, 1e3}) {
    first.expect_wolfe(step);
    parabola.expect_wolfe(step);
  }
  for (const double step : {1e-3, 1e-1, 1e1}) second.expect_wolfe(step);
}

TEST(WolfeSearch, StepsBackFromValuesThatAreNotFinite) {
  const Line wall{
      [](double t) { return t < 1 ? t * t - t : std::numeric_limits<double>::quiet_NaN(); },
      [](double t) { return t < 1 ? 2 * t - 1 : 0; }};
  wall.expect_wolfe(100);
}

TEST(WolfeSearch, GivesUpAfterItsEvaluationsWhereThereIsNoEnd) {
  const Line falling{[](double t) { return -t; }, [](double) { return -1; }};
  const WolfeResult result = falling.search(1);
  EXPECT_FALSE(result.found);
  EXPECT_EQ(result.evaluations, 25);
  EXPECT_EQ(result.point.step, std::exp2(24));
}

TEST(WolfeSearch, DoesNotBeginUphill) {
  const Line rising{[](double t) { return t; }, [](double) { return 1; }};
  const WolfeResult result = rising.search(1);
  EXPECT_FALSE(result.found);
  EXPECT_EQ(result.evaluations, 0);
}

}  // namespace
}  // namespace paceline::quasi_newton
