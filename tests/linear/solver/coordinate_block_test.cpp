#include "paceline/linear/solver/coordinate_block.h"

#include <gtest/gtest.h>

#include <array>

#include "paceline/core/base/seed.h"
#include "tests/linear/linear_problems.h"
#include "tests/support/seed.h"

namespace paceline::linear {
namespace {

double primal_of(const test::LinearCase& one, const CoordinateBlock& block) {
  double loss = 0;
  for (std::size_t i = 0; i < one.samples.size(); ++i)
    loss += one.problem.loss.value(block.predictions[i], one.samples.labels[i]);
  return loss / static_cast<double>(one.samples.size()) + regulariser(one.problem, block.weights);
}

TEST(CoordinateBlockTest, NoStepRaisesTheObjectiveAndPredictionsStayThoseOfTheWeights) {
  SeededNumbers numbers(test::seed(31));
  for (const std::string_view loss : {"squared", "smooth_hinge", "logistic"}) {
    for (const double l1 : {0.0, 0.003}) {
      test::LinearCase one = test::sign_case(test::seed(32), loss, 200, 20);
      one.problem.l1 = l1;
      CoordinateBlock block(one.problem, columns_of(one.samples.rows), one.samples.labels);
      double primal = primal_of(one, block);
      for (int i = 0; i < 1000; ++i) {
        block.step(numbers.below(block.size()));
        const double next = primal_of(one, block);
        ASSERT_LE(next, primal + 1e-15) << loss;
        primal = next;
      }
      for (std::size_t i = 0; i < one.samples.size(); ++i)
        EXPECT_NEAR(block.predictions[i], dot(one.samples.rows.row(i), block.weights), 1e-12);
    }
  }
}

// For the squared loss a step solves the equation of its weight: Gauss and Seidel.
TEST(CoordinateBlockTest, OnRidgeRegressionItIsGaussSeidel) {
  const test::LinearCase one = test::ridge_case(test::seed(33));
  const std::vector<double> optimum = test::ridge_optimum(one);
  CoordinateBlock block(one.problem, columns_of(one.samples.rows), one.samples.labels);
  for (int pass = 0; pass < 60; ++pass)
    for (std::size_t j = 0; j < block.size(); ++j) block.step(j);
  EXPECT_LT(test::largest_difference(block.weights, optimum), 1e-8);
}

// With the squared loss a step is the proximal one of its weight: it ends at the least objective
// along it, l1 and l2 included.
TEST(CoordinateBlockTest, WithL1AStepEndsAtTheLeastObjectiveAlongItsWeight) {
  test::LinearCase one = test::ridge_case(test::seed(36), 100, 12);
  one.problem.l1 = 0.02;
  one.problem.l2 = 0.05;
  CoordinateBlock block(one.problem, columns_of(one.samples.rows), one.samples.labels);
  int zeros = 0;
  for (int pass = 0; pass < 3; ++pass) {
    for (std::size_t j = 0; j < block.size(); ++j) {
      block.step(j);
      zeros += block.weights[j] == 0 ? 1 : 0;
      const double least = primal_of(one, block);
      for (const double by : {-1e-2, -1e-5, 1e-5, 1e-2}) {
        CoordinateBlock other(block);
        other.weights[j] += by;
        add(by, columns_of(one.samples.rows).column(j), other.predictions);
        EXPECT_GT(primal_of(one, other), least) << j;
      }
    }
  }
  EXPECT_GT(zeros, 0);
}

// The mean of all steps by one sample is the step by all of them.
TEST(CoordinateBlockTest, AStepByDrawnSamplesIsRightInTheMean) {
  const test::LinearCase one = test::sign_case(test::seed(35), "logistic", 50, 6);
  const SparseColumns columns = columns_of(one.samples.rows);
  for (std::size_t j = 0; j < columns.size(); ++j) {
    const auto moved = [&](const auto& step) {
      CoordinateBlock block(one.problem, columns, one.samples.labels);
      for (std::size_t other = 0; other < block.size(); ++other) block.step(other);
      const double before = block.weights[j];
      step(block);
      return block.weights[j] - before;
    };
    double mean = 0;
    for (std::size_t i = 0; i < one.samples.size(); ++i)
      mean += moved([&](CoordinateBlock& block) { block.step(j, 0.5, std::array{i}); }) / 50;
    EXPECT_NEAR(mean, moved([&](CoordinateBlock& block) { block.step(j, 0.5); }), 1e-14);
    EXPECT_NE(mean, 0);
  }
}

TEST(CoordinateBlockTest, AFeatureThatNoSampleHasKeepsItsWeight) {
  test::LinearCase one = test::ridge_case(test::seed(34), 10, 3);
  one.samples.rows.width = 4;
  one.problem.l2 = 0;
  CoordinateBlock block(one.problem, columns_of(one.samples.rows), one.samples.labels);
  block.step(3);
  EXPECT_EQ(block.weights[3], 0);
}

}  // namespace
}  // namespace paceline::linear
