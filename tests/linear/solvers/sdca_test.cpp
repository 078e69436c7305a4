#include <gtest/gtest.h>

#include <cmath>

#include "tests/linear/linear_problems.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::linear {
namespace {

TEST(SdcaTest, ItReachesTheOptimumOfRidgeRegression) {
  const test::LinearCase one = test::ridge_case(test::seed(61));
  const auto run = test::run_solver(one, "sdca", 1, 30);
  EXPECT_LT(run.objectives[9].gap(), 1e-7);
  EXPECT_LT(run.objectives[29].gap(), 1e-15);
  EXPECT_LT(test::largest_difference(run.weights, test::ridge_optimum(one)), 1e-7);
  EXPECT_EQ(run.bytes_brought, 0u);
}

// The objective is l2-strongly convex, so the gap says how far the optimum is at most.
TEST(SdcaTest, TheGapBoundsTheDistanceToTheOptimum) {
  for (const std::string_view loss : {"squared", "logistic", "smooth_hinge", "hinge"}) {
    const test::LinearCase one = loss == "squared" ? test::ridge_case(test::seed(65))
                                                   : test::sign_case(test::seed(65), loss);
    const auto best = test::run_solver(one, "sdca", 1, 300);
    const double slack = std::sqrt(2 * std::abs(best.objectives.back().gap()) / one.problem.l2);
    for (const int passes : {1, 2, 4, 8}) {
      const auto run = test::run_solver(one, "sdca:order=draws", 1, passes);
      double distance = 0;
      for (std::size_t j = 0; j < run.weights.size(); ++j)
        distance += std::pow(run.weights[j] - best.weights[j], 2);
      EXPECT_LE(std::sqrt(distance),
                std::sqrt(2 * run.objectives.back().gap() / one.problem.l2) + slack + 1e-9)
          << loss;
    }
  }
}

// After (n + 1/(l2 gamma)) log((n + 1/(l2 gamma)) / epsilon) independent draws the expected gap of
// a loss with smoothness 1/gamma is at most epsilon.
TEST(SdcaTest, IndependentDrawsKeepThePublishedRate) {
  constexpr double kSamples = 200, kL2 = 0.01, kEpsilon = 1e-6;
  constexpr double kScale = kSamples + 1 / kL2;
  const int passes = static_cast<int>(std::ceil(kScale * std::log(kScale / kEpsilon) / kSamples));
  double sum = 0;
  for (std::uint64_t data = 0; data < 5; ++data) {
    const auto run =
        test::run_solver(test::ridge_case(test::seed(640 + data)), "sdca:order=draws", 1, passes);
    sum += run.objectives.back().gap();
  }
  EXPECT_LE(sum / 5, kEpsilon);
}

TEST(SdcaTest, TheGapShrinksAsSoonAsPublishedForEachLoss) {
  const std::uint64_t seeds = test::is_nightly() ? 10 : 2;
  for (std::uint64_t data = 0; data < seeds; ++data) {
    const auto hinge =
        test::run_solver(test::sign_case(test::seed(620 + data), "hinge"), "sdca", 1, 100);
    EXPECT_LT(hinge.objectives[9].gap(), 1e-3);
    EXPECT_LT(hinge.objectives[49].gap(), 1e-4);
    EXPECT_LT(hinge.objectives[99].gap(), 1e-5);
    for (const std::string_view loss : {"smooth_hinge", "logistic"}) {
      const auto run =
          test::run_solver(test::sign_case(test::seed(620 + data), loss), "sdca", 1, 10);
      EXPECT_LT(run.objectives.back().gap(), 1e-9) << loss;
      for (const Objective& one : run.objectives) EXPECT_GT(one.gap(), -1e-14) << loss;
    }
  }
}

}  // namespace
}  // namespace paceline::linear
