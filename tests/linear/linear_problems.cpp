#include "tests/linear/linear_problems.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "paceline/core/base/seed.h"
#include "tests/support/local_world.h"

namespace paceline::test {

using linear::Samples;

namespace {

// Rows of length 1 with no zeros; the labels are left to the caller.
Samples unit_rows(SeededNumbers& numbers, std::size_t samples, std::size_t features) {
  std::normal_distribution<double> normal;
  std::vector<std::uint32_t> indices(features);
  for (std::size_t j = 0; j < features; ++j) indices[j] = static_cast<std::uint32_t>(j);
  Samples drawn;
  for (std::size_t i = 0; i < samples; ++i) {
    std::vector<double> values(features);
    for (double& one : values) one = normal(numbers);
    const double length = std::sqrt(linear::squared_norm({indices, values}));
    for (double& one : values) one /= length;
    drawn.rows.append({indices, values});
  }
  return drawn;
}

LinearCase drawn_case(std::uint64_t seed, std::string_view loss, std::size_t samples,
                      std::size_t features, double noise, bool signs) {
  SeededNumbers numbers(seed);
  std::normal_distribution<double> normal;
  LinearCase one{{.loss = linear::parse_loss(loss).value(), .l2 = 0.01},
                 unit_rows(numbers, samples, features)};
  std::vector<double> truth(features);
  for (double& w : truth) w = normal(numbers);
  for (std::size_t i = 0; i < samples; ++i) {
    const double label = dot(one.samples.rows.row(i), truth) + noise * normal(numbers);
    one.samples.labels.push_back(signs ? std::copysign(1, label) : label);
  }
  return one;
}

}  // namespace

LinearCase ridge_case(std::uint64_t seed, std::size_t samples, std::size_t features) {
  return drawn_case(seed, "squared", samples, features, 0.1, false);
}

LinearCase sign_case(std::uint64_t seed, std::string_view loss, std::size_t samples,
                     std::size_t features) {
  return drawn_case(seed, loss, samples, features, 0.3, true);
}

LinearRun run_solver(const LinearCase& one, std::string_view solver, int ranks, int rounds,
                     linear::Split split) {
  const linear::SolverChoice choice = linear::parse_solver(solver).value();
  std::vector<LinearRun> runs(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&](Job& job) {
    LinearRun& run = runs[static_cast<std::size_t>(job.rank())];
    const linear::SolverContext context{one.problem, one.samples, split, job.world()};
    const Samples own = select(one.samples, context.own_samples());
    const auto made = linear::make_solver(choice, context);
    for (int round = 0; round < rounds; ++round) {
      made->round();
      run.weights = made->weights();
      run.objectives.push_back(objective(one.problem, own, one.samples.size(), run.weights,
                                         made->dual_variables(), job.world()));
    }
    run.bytes_brought = made->bytes_brought();
  });
  for (const LinearRun& run : runs) EXPECT_EQ(run.weights, runs[0].weights);
  return runs[0];
}

std::vector<double> solution_of(std::vector<std::vector<double>> matrix,
                                std::vector<double> right) {
  const std::size_t size = right.size();
  for (std::size_t k = 0; k < size; ++k) {
    for (std::size_t i = k + 1; i < size; ++i) {
      const double factor = matrix[i][k] / matrix[k][k];
      for (std::size_t j = k; j < size; ++j) matrix[i][j] -= factor * matrix[k][j];
      right[i] -= factor * right[k];
    }
  }
  for (std::size_t k = size; k-- > 0;) {
    for (std::size_t j = k + 1; j < size; ++j) right[k] -= matrix[k][j] * right[j];
    right[k] /= matrix[k][k];
  }
  return right;
}

std::vector<double> ridge_optimum(const LinearCase& one) {
  const std::size_t width = one.samples.rows.width;
  const auto n = static_cast<double>(one.samples.size());
  std::vector<std::vector<double>> matrix(width, std::vector<double>(width));
  std::vector<double> right(width);
  for (std::size_t j = 0; j < width; ++j) matrix[j][j] = one.problem.l2;
  for (std::size_t i = 0; i < one.samples.size(); ++i) {
    const linear::SparseVector row = one.samples.rows.row(i);
    add(one.samples.labels[i] / n, row, right);
    for (std::size_t k = 0; k < row.entries(); ++k)
      add(row.values[k] / n, row, matrix[row.indices[k]]);
  }
  return solution_of(std::move(matrix), std::move(right));
}

double largest_difference(std::span<const double> a, std::span<const double> b) {
  double largest = a.size() == b.size() ? 0 : HUGE_VAL;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i)
    largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

}  // namespace paceline::test
