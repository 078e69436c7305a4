#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/linear/linear_problems.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::linear {
namespace {

// Gradient descent on the whole model; batches are consecutive pieces of a permutation for each
// epoch.
std::vector<double> serial_descent(const test::LinearCase& one, double rate, std::size_t batch,
                                   int rounds) {
  std::vector<double> weights(one.samples.rows.width);
  std::vector<std::size_t> rest;
  for (int round = 0, epoch = 0; round < rounds; ++round) {
    if (rest.empty()) rest = permutation(one.samples.size(), seed_of(1, 0, epoch++));
    const std::size_t count = std::min(batch, rest.size());
    std::vector<double> gradient(weights.size());
    for (std::size_t k = 0; k < count; ++k) {
      const SparseVector row = one.samples.rows.row(rest[k]);
      add(one.problem.loss.derivative(dot(row, weights), one.samples.labels[rest[k]]), row,
          gradient);
    }
    rest.erase(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(count));
    for (std::size_t j = 0; j < weights.size(); ++j) {
      weights[j] -= rate * (gradient[j] / static_cast<double>(count) + one.problem.l2 * weights[j]);
    }
  }
  return weights;
}

TEST(FeatureSplitTest, OnRanksItIsGradientDescentOfOneProcess) {
  for (const std::string_view loss : {"logistic", "smooth_hinge"}) {
    const test::LinearCase one = test::sign_case(test::seed(111), loss, 100, 11);
    for (int ranks = 1; ranks <= 4; ++ranks) {
      const auto batches = test::run_solver(one, "feature_split:batch=32,rate=0.3", ranks, 50);
      EXPECT_LT(test::largest_difference(batches.weights, serial_descent(one, 0.3, 32, 50)), 1e-12);
      const auto whole = test::run_solver(one, "feature_split:rate=2", ranks, 20);
      EXPECT_LT(test::largest_difference(whole.weights, serial_descent(one, 2, 100, 20)), 1e-12);
    }
  }
}

TEST(FeatureSplitTest, EightBytesASampleOfTheBatchTravelWhateverTheFeatures) {
  for (const std::size_t features : {4u, 40u}) {
    const test::LinearCase one = test::sign_case(test::seed(112), "logistic", 100, features);
    // Epochs of 32, 32, 32 and 4 samples.
    EXPECT_EQ(test::run_solver(one, "feature_split:batch=32", 2, 8).bytes_brought, 8u * 200);
    EXPECT_EQ(test::run_solver(one, "feature_split", 2, 8).bytes_brought, 8u * 800);
    EXPECT_EQ(test::run_solver(one, "feature_split:step=coordinate", 2, 8).bytes_brought, 8u * 800);
  }
}

TEST(FeatureSplitTest, BothStepsReachTheOptimum) {
  const test::LinearCase one = test::ridge_case(test::seed(113));
  const std::vector<double> optimum = test::ridge_optimum(one);
  for (const std::string_view solver :
       {"feature_split:rate=10", "feature_split:step=coordinate,passes=20"}) {
    const auto run = test::run_solver(one, solver, 4, 300);
    EXPECT_LT(test::largest_difference(run.weights, optimum), 1e-8) << solver;
  }
}

// Weights are within |gradient| / l2 of the optimum.
TEST(FeatureSplitTest, BothStepsReachTheOptimumOfLogisticRegression) {
  const test::LinearCase one = test::sign_case(test::seed(115), "logistic", 300, 9);
  for (const std::string_view solver :
       {"feature_split:rate=8", "feature_split:step=coordinate,passes=5"}) {
    const auto weights = test::run_solver(one, solver, 3, test::is_brief() ? 700 : 1500).weights;
    std::vector<double> gradient(weights.size());
    for (std::size_t i = 0; i < one.samples.size(); ++i) {
      const SparseVector row = one.samples.rows.row(i);
      add(one.problem.loss.derivative(dot(row, weights), one.samples.labels[i]) / 300, row,
          gradient);
    }
    for (std::size_t j = 0; j < weights.size(); ++j)
      EXPECT_LT(std::abs(gradient[j] + one.problem.l2 * weights[j]), 1e-8 * one.problem.l2)
          << solver;
  }
}

TEST(FeatureSplitTest, ItsOwnRateNeverRaisesTheObjectiveAlsoWithL1) {
  test::LinearCase one = test::sign_case(test::seed(114), "logistic", 100, 11);
  one.problem.l1 = 0.002;
  const auto run = test::run_solver(one, "feature_split", 3, 60);
  for (std::size_t k = 1; k < run.objectives.size(); ++k)
    EXPECT_LE(run.objectives[k].primal, run.objectives[k - 1].primal);
}

TEST(FeatureSplitTest, SettingsOfTheOtherStepAreRefused) {
  const test::LinearCase one = test::ridge_case(1, 8, 4);
  for (const std::string_view solver :
       {"feature_split:passes=2", "feature_split:share=1", "feature_split:step=coordinate,batch=2"})
    EXPECT_THROW(test::run_solver(one, solver, 1, 1), Error) << solver;
}

}  // namespace
}  // namespace paceline::linear
