// Rates of coordinate steps in exact expectation: one drawn step after the other, and several at
// once. Also covers paceline/linear/solver/coordinate_block.cpp.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <random>

#include "paceline/core/base/seed.h"
#include "paceline/linear/solver/coordinate_block.h"
#include "tests/linear/linear_problems.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::linear::coordinate_rates_test {
namespace {

using Vector = std::vector<double>;
using Matrix = std::vector<Vector>;

double product(const Vector& a, const Vector& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// The largest eigenvalue of a positive operator, and its eigenvector of length 1.
struct Eigenpair {
  double value = 0;
  Vector vector;
};
Eigenpair largest_eigenpair(std::size_t size, const std::function<Vector(const Vector&)>& apply) {
  Eigenpair found{0, Vector(size, 1)};
  for (std::size_t j = 0; j < size; ++j) found.vector[j] += 0.01 * static_cast<double>(j);
  for (int i = 0; i < 2000; ++i) {
    Vector next = apply(found.vector);
    found.value = std::sqrt(product(next, next));
    for (double& v : next) v /= found.value;
    found.vector = next;
  }
  return found;
}

// Samples of which the columns have unit length, and resemble each other the more the larger
// `common` is. Labels are 0, so the optimum is too.
test::LinearCase unit_columns(std::uint64_t seed, std::size_t samples, std::size_t features,
                              double common) {
  SeededNumbers numbers(seed);
  std::normal_distribution<double> normal;
  Matrix rows(samples, Vector(features));
  Vector lengths(features);
  for (Vector& row : rows) {
    for (std::size_t j = 0; j < features; ++j) {
      row[j] = normal(numbers) + common;
      lengths[j] += row[j] * row[j];
    }
  }
  test::LinearCase one{{.loss = parse_loss("squared").value()}, {}};
  std::vector<std::uint32_t> indices(features);
  std::iota(indices.begin(), indices.end(), 0u);
  for (Vector& row : rows) {
    for (std::size_t j = 0; j < features; ++j) row[j] /= std::sqrt(lengths[j]);
    one.samples.rows.append({indices, row});
    one.samples.labels.push_back(0);
  }
  return one;
}

// X'X v.
Vector gram_times(const Samples& samples, const Vector& v) {
  Vector result(v.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const SparseVector row = samples.rows.row(i);
    add(dot(row, v), row, result);
  }
  return result;
}

// A block at these weights.
CoordinateBlock block_at(const test::LinearCase& one, const Vector& weights) {
  CoordinateBlock block(one.problem, columns_of(one.samples.rows), one.samples.labels);
  block.weights = weights;
  for (std::size_t i = 0; i < one.samples.size(); ++i)
    block.predictions[i] = dot(one.samples.rows.row(i), weights);
  return block;
}

// The error after k drawn steps is E[M_j ... e], where a step on feature j multiplies it by the
// matrix M_j. Its second moments S follow without any draw: S = sum_j p_j M_j S M_j'.
TEST(CoordinateRatesTest, TheExpectedErrorStaysBelowTheLinearRatesOfBothKindsOfDraws) {
  test::LinearCase one = test::ridge_case(test::seed(970));
  const std::size_t d = one.samples.rows.width;
  const auto n = static_cast<double>(one.samples.size());
  const Vector optimum = test::ridge_optimum(one);
  std::ranges::fill(one.samples.labels, 0);  // the same errors, around an optimum of 0
  const auto hessian_times = [&](const Vector& v) {
    Vector result = gram_times(one.samples, v);
    for (std::size_t j = 0; j < d; ++j) result[j] = result[j] / n + one.problem.l2 * v[j];
    return result;
  };
  Matrix hessian(d);
  // Row j of M_j, from the steps themselves; its other rows are those of the identity.
  Matrix moving_rows(d, Vector(d));
  for (std::size_t k = 0; k < d; ++k) {
    Vector unit(d);
    unit[k] = 1;
    hessian[k] = hessian_times(unit);
    for (std::size_t j = 0; j < d; ++j) {
      CoordinateBlock block = block_at(one, unit);
      block.step(j);
      moving_rows[j][k] = block.weights[j];
      block.weights[j] = unit[j];
      EXPECT_EQ(block.weights, unit) << "the others stay";
    }
  }
  const double mu = 1 / largest_eigenpair(d, [&](const Vector& v) {
                          return test::solution_of(hessian, v);
                        }).value;
  const CoordinateBlock block = block_at(one, optimum);
  const auto curvatures = block.curvatures();
  const double sum = std::accumulate(curvatures.begin(), curvatures.end(), 0.0);
  const double most = std::ranges::max(curvatures);

  for (const bool by_curvature : {false, true}) {
    const double rate = by_curvature ? 1 - mu / sum : 1 - mu / (static_cast<double>(d) * most);
    Matrix moments(d, Vector(d));
    for (std::size_t i = 0; i < d; ++i)
      for (std::size_t k = 0; k < d; ++k) moments[i][k] = optimum[i] * optimum[k];
    const auto error = [&] {
      double trace = 0;
      for (std::size_t i = 0; i < d; ++i) trace += product(hessian[i], moments[i]) / 2;
      return trace;
    };
    const double first = error();
    double bound = first;
    for (int step = 1; step <= 400; ++step) {
      Matrix next(d, Vector(d));
      for (std::size_t j = 0; j < d; ++j) {
        const double p = by_curvature ? curvatures[j] / sum : 1 / static_cast<double>(d);
        Vector row(d);
        for (std::size_t k = 0; k < d; ++k) row[k] = product(moments[k], moving_rows[j]);
        for (std::size_t i = 0; i < d; ++i) {
          for (std::size_t k = 0; k < d; ++k) {
            const double moved = i == j && k == j ? product(row, moving_rows[j])
                                 : i == j         ? row[k]
                                 : k == j         ? row[i]
                                                  : moments[i][k];
            next[i][k] += p * moved;
          }
        }
      }
      moments = next;
      bound *= rate;
      ASSERT_LE(error(), bound * (1 + 1e-12))
          << "step " << step << " by_curvature " << by_curvature;
    }
    EXPECT_LT(error(), first / 10);
  }
}

// The objective after P steps that all start from the same weights, in expectation over the P
// features: exact, since it is quadratic, out of steps of one and of two features. The start is the
// worst one, along the first eigenvector.
struct Expected {
  double without_replacement = 0, with_replacement = 0;  // of the objective, less that at the start
};
Expected expected_change(const test::LinearCase& one, const Vector& start, double together) {
  const std::size_t d = start.size();
  Vector moves(d);
  for (std::size_t j = 0; j < d; ++j) {
    CoordinateBlock block = block_at(one, start);
    block.step(j);
    moves[j] = block.weights[j] - start[j];
  }
  const auto change = [&](std::initializer_list<std::size_t> features) {
    Vector weights = start;
    for (const std::size_t j : features) weights[j] += moves[j];
    const auto value = [&](const Vector& w) {
      return product(w, gram_times(one.samples, w)) / (2 * static_cast<double>(one.samples.size()));
    };
    return value(weights) - value(start);
  };
  Vector alone(d);
  for (std::size_t j = 0; j < d; ++j) alone[j] = change({j});
  double distinct = 0, same = 0;  // what two steps do beyond the sum of both
  for (std::size_t i = 0; i < d; ++i)
    for (std::size_t j = 0; j < d; ++j)
      (i == j ? same : distinct) += change({i, j}) - alone[i] - alone[j];
  const auto count = static_cast<double>(d);
  const double linear = together * std::accumulate(alone.begin(), alone.end(), 0.0) / count;
  const double pairs = together * (together - 1) / 2;
  return {linear + pairs * distinct / (count * (count - 1)),
          linear + pairs * (distinct + same) / (count * count)};
}

// Shotgun: P steps at once descend in expectation from everywhere as long as P < d/rho + 1 for
// draws with replacement, and P < 1 + (d - 1)/(rho - 1) for distinct features, where rho is the
// largest eigenvalue of X'X; beyond, there are weights from which they climb.
TEST(CoordinateRatesTest, StepsAtOnceDescendUpToShotgunsLimitAndClimbBeyond) {
  constexpr std::size_t kFeatures = 12;
  int within = 0, beyond = 0;
  for (int seed = 0; seed < 5; ++seed) {
    const auto number = static_cast<std::uint64_t>(seed);
    const test::LinearCase one = unit_columns(test::seed(980 + number), 30, kFeatures, seed);
    const Eigenpair worst =
        largest_eigenpair(kFeatures, [&](const Vector& v) { return gram_times(one.samples, v); });
    const double rho = worst.value;
    for (int together = 1; together <= static_cast<int>(kFeatures); ++together) {
      const Expected change = expected_change(one, worst.vector, together);
      const double with = kFeatures / rho + 1, without = 1 + (kFeatures - 1) / (rho - 1);
      EXPECT_EQ(change.with_replacement < 0, together < with) << together << " rho " << rho;
      EXPECT_EQ(change.without_replacement < 0, together < without) << together << " rho " << rho;
      EXPECT_LE(with, without + 1e-12) << "the paper's limit is the safe one";
      ++(change.without_replacement < 0 ? within : beyond);
    }
  }
  EXPECT_GT(within, 5);
  EXPECT_GT(beyond, 5);
}

// The same on ranks, each of which has one feature: all of them move at once. From zero weights,
// labels along the first eigenvector are the worst.
TEST(CoordinateRatesTest, OnRanksWithAFeatureEachTheWholeMoveDescendsBelowTheLimitAlone) {
  for (const double common : {0.0, 1.0}) {
    for (const int ranks : {2, 6}) {
      const auto d = static_cast<std::size_t>(ranks);
      test::LinearCase one = unit_columns(test::seed(990), 400, d, common);
      const Eigenpair worst =
          largest_eigenpair(d, [&](const Vector& v) { return gram_times(one.samples, v); });
      for (std::size_t i = 0; i < one.samples.size(); ++i)
        one.samples.labels[i] = dot(one.samples.rows.row(i), worst.vector);
      const auto n = static_cast<double>(one.samples.size());
      const double start = worst.value / (2 * n);
      for (const std::string_view solver :
           {"scd:share=1", "feature_split:step=coordinate,share=1"}) {
        const auto run = test::run_solver(one, solver, ranks, 1);
        // The move is rho V, so the error is (1 - rho) V.
        const double left = (1 - worst.value) * (1 - worst.value);
        EXPECT_NEAR(run.objectives[0].primal, left * start, 1e-6 * left * start) << solver;
        EXPECT_EQ(run.objectives[0].primal < start, worst.value < 2) << solver;
        EXPECT_EQ(worst.value < 2, ranks < 1 + (ranks - 1) / (worst.value - 1)) << "the limit";
      }
      for (const std::string_view solver : {"scd", "feature_split:step=coordinate"})
        EXPECT_LT(test::run_solver(one, solver, ranks, 1).objectives[0].primal, start) << solver;
    }
  }
}

}  // namespace
}  // namespace paceline::linear::coordinate_rates_test
