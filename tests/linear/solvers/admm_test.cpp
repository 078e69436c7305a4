#include <gtest/gtest.h>

#include <cmath>

#include "tests/linear/linear_problems.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::linear {
namespace {

constexpr double kPenalty = 0.05;

double distance_between(std::span<const double> a, std::span<const double> b) {
  double sum = 0, length = 0;
  for (std::size_t j = 0; j < a.size(); ++j) {
    sum += (a[j] - b[j]) * (a[j] - b[j]);
    length += b[j] * b[j];
  }
  return std::sqrt(sum / length);
}

// Consensus ADMM of ridge regression in one process, where each part's problem is solved in closed
// form: x = (X'X/n + penalty)^-1 (X'y/n + penalty (z - u)).
std::vector<double> serial_ridge_admm(const test::LinearCase& one, int ranks, int rounds,
                                      double relaxation) {
  const std::size_t width = one.samples.rows.width;
  const auto n = static_cast<double>(one.samples.size());
  std::vector<double> z(width);
  std::vector<std::vector<double>> u(static_cast<std::size_t>(ranks), z), x = u;
  for (int round = 0; round < rounds; ++round) {
    std::vector<double> mean(width);
    for (int rank = 0; rank < ranks; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      std::vector<std::vector<double>> matrix(width, std::vector<double>(width));
      std::vector<double> right(width);
      for (std::size_t j = 0; j < width; ++j) {
        matrix[j][j] = kPenalty;
        right[j] = kPenalty * (z[j] - u[r][j]);
      }
      for (const std::size_t i : part_of(one.samples.size(), Split::contiguous, 1, rank, ranks)) {
        const SparseVector row = one.samples.rows.row(i);
        add(one.samples.labels[i] / n, row, right);
        for (std::size_t k = 0; k < row.entries(); ++k)
          add(row.values[k] / n, row, matrix[row.indices[k]]);
      }
      x[r] = test::solution_of(matrix, right);
      for (std::size_t j = 0; j < width; ++j) {
        x[r][j] = relaxation * x[r][j] + (1 - relaxation) * z[j];
        mean[j] += (x[r][j] + u[r][j]) / ranks;
      }
    }
    for (std::size_t j = 0; j < width; ++j)
      z[j] = ranks * kPenalty * mean[j] / (one.problem.l2 + ranks * kPenalty);
    for (std::size_t r = 0; r < u.size(); ++r)
      for (std::size_t j = 0; j < width; ++j) u[r][j] += x[r][j] - z[j];
  }
  return z;
}

TEST(AdmmTest, OnRanksItIsTheSerialFormWithExactSolutions) {
  const test::LinearCase one = test::ridge_case(test::seed(91), 101, 8);
  for (int ranks = 1; ranks <= 4; ++ranks) {
    for (const double relaxation : {1.0, 1.6}) {
      const std::string solver =
          "admm:penalty=0.05,passes=200,relaxation=" + std::to_string(relaxation);
      const auto run = test::run_solver(one, solver, ranks, 20);
      EXPECT_LT(
          test::largest_difference(run.weights, serial_ridge_admm(one, ranks, 20, relaxation)),
          1e-10);
      EXPECT_EQ(run.bytes_brought, ranks == 1 ? 0u : 20u * 8 * 8) << "8 bytes a feature a round";
    }
  }
}

TEST(AdmmTest, OnEightRanksItContractsAsFastAsPublished) {
  const int seeds = test::is_nightly() ? 10 : 1;
  for (int data = 0; data < seeds; ++data) {
    const test::LinearCase one =
        test::ridge_case(test::seed(940 + static_cast<std::uint64_t>(data)));
    const std::vector<double> optimum = test::ridge_optimum(one);
    const std::string_view solver = "admm:penalty=0.05,passes=20";
    EXPECT_LT(distance_between(test::run_solver(one, solver, 8, 100).weights, optimum), 1e-3);
    EXPECT_LT(distance_between(test::run_solver(one, solver, 8, 200).weights, optimum), 1e-6);
  }
}

TEST(AdmmTest, ItReachesTheOptimumAndInexactSolutionsAreEnough) {
  for (const std::string_view solver :
       {"admm:penalty=0.05", "admm:penalty=0.05,passes=1", "admm:penalty=5,adaptive=on"}) {
    const test::LinearCase one = test::ridge_case(test::seed(92));
    const auto run = test::run_solver(one, solver, 4, 250);
    EXPECT_LT(distance_between(run.weights, test::ridge_optimum(one)), 1e-5) << solver;
  }
  const test::LinearCase one = test::ridge_case(test::seed(92));
  const auto fixed = test::run_solver(one, "admm:penalty=5", 4, 250);
  EXPECT_GT(distance_between(fixed.weights, test::ridge_optimum(one)), 1e-2);
}

TEST(AdmmTest, WithL1ItFindsTheLassoThatCoordinateDescentFinds) {
  test::LinearCase one = test::ridge_case(test::seed(93), 200, 20);
  one.problem.l2 = 0;
  one.problem.l1 = 0.01;
  const auto admm = test::run_solver(one, "admm:penalty=0.02,passes=20", 4, 500);
  const auto scd = test::run_solver(one, "scd", 1, 400);
  EXPECT_LT(scd.objectives.back().gap(), 1e-10);
  EXPECT_LT(test::largest_difference(admm.weights, scd.weights), 1e-6);
  EXPECT_TRUE(std::ranges::count(scd.weights, 0) > 0);
}

}  // namespace
}  // namespace paceline::linear
