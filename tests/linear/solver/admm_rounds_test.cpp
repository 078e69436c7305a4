#include "paceline/linear/solver/admm_rounds.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/linear/linear_problems.h"
#include "tests/support/local_world.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::linear::admm_rounds_test {
namespace {

constexpr int kRanks = 8;
// So many passes solve a rank's problem to rounding.
constexpr LocalSolveOptions kExact = {.most_passes = 200};

// Runs on contiguous parts, and shows each rank's solver to `look` after every round.
using Look = std::function<void(Job& job, AdmmRounds& solver, const Samples& own)>;
void run_rounds(const test::LinearCase& one, const AdmmOptions& options, int rounds,
                const Look& look) {
  test::run_ranks(kRanks, [&](Job& job) {
    const SolverContext context{one.problem, one.samples, Split::contiguous, job.world()};
    const Samples own = select(one.samples, context.own_samples());
    AdmmRounds solver(options, context);
    for (int round = 0; round < rounds; ++round) {
      solver.round();
      look(job, solver, own);
    }
  });
}

std::vector<double> sum_over_ranks(Job& job, std::span<const double> values) {
  std::vector<double> sum(values.begin(), values.end());
  job.world().all_reduce(buffer_of(sum)).wait();
  return sum;
}

// The gradient of a rank's share of the mean loss.
std::vector<double> gradient_of(const test::LinearCase& one, const Samples& own,
                                std::span<const double> weights) {
  std::vector<double> gradient(weights.size());
  for (std::size_t i = 0; i < own.size(); ++i) {
    const SparseVector row = own.rows.row(i);
    const double slope = one.problem.loss.derivative(dot(row, weights), own.labels[i]);
    add(slope / static_cast<double>(one.samples.size()), row, gradient);
  }
  return gradient;
}

double squared_distance(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t j = 0; j < a.size(); ++j) sum += (a[j] - b[j]) * (a[j] - b[j]);
  return sum;
}

TEST(AdmmRoundsTest, TheLyapunovFunctionNeverGrows) {
  constexpr double kPenalty = 0.05;
  const test::LinearCase one = test::ridge_case(test::seed(960));
  const std::vector<double> optimum = test::ridge_optimum(one);
  double before = HUGE_VAL, first = 0, last = 0;
  run_rounds(one, {.penalty = kPenalty, .local_solve = kExact}, test::is_brief() ? 60 : 200,
             [&](Job& job, AdmmRounds& solver, const Samples& own) {
               std::vector<double> wanted = gradient_of(one, own, optimum);
               for (double& u : wanted) u /= -kPenalty;
               const double apart = squared_distance(solver.multipliers(), wanted);
               const double energy =
                   kPenalty * (kRanks * squared_distance(solver.weights(), optimum) +
                               sum_over_ranks(job, std::span(&apart, 1))[0]);
               if (job.rank() != 0) return;
               EXPECT_LE(energy, before + 1e-12 * before + 1e-24);
               if (first == 0) first = energy;
               before = last = energy;
             });
  EXPECT_LT(last, first * 1e-3);
}

TEST(AdmmRoundsTest, WithoutARegulariserTheMultipliersAddUpToZeroAfterEveryRound) {
  test::LinearCase one = test::ridge_case(test::seed(961));
  one.problem.l2 = 0;
  const int rounds = test::is_brief() ? 40 : 400;
  for (const AdmmOptions& options :
       {AdmmOptions{.penalty = 0.05, .local_solve = {.most_passes = 20}},
        AdmmOptions{.penalty = 0.05, .relaxation = 1.6, .local_solve = {.most_passes = 20}},
        AdmmOptions{.penalty = 5, .adapts = true, .local_solve = {.most_passes = 20}}}) {
    std::vector<double> weights;
    double largest = 0;
    run_rounds(one, options, rounds, [&](Job& job, AdmmRounds& solver, const Samples&) {
      const std::vector<double> sum = sum_over_ranks(job, solver.multipliers());
      const auto length = std::sqrt(
          squared_distance(solver.multipliers(), std::vector<double>(solver.multipliers().size())));
      if (job.rank() != 0) return;
      for (const double u : sum) EXPECT_NEAR(u, 0, 1e-12);
      largest = std::max(largest, length);
      weights = solver.weights();
    });
    EXPECT_GT(largest, 0.01) << "each rank's are far from 0";
    if (!options.adapts && !test::is_brief()) {
      EXPECT_LT(test::largest_difference(weights, test::ridge_optimum(one)), 1e-6)
          << "least squares, relaxation " << options.relaxation;
    }
  }
}

// The residuals' tolerances of the paper bound the distance to the optimum.
TEST(AdmmRoundsTest, SmallResidualsMeanThatTheOptimumIsNear) {
  if (test::is_brief()) GTEST_SKIP() << "numbers alone: without sanitizers, and at night";
  constexpr double kPenalty = 0.05, kTolerance = 1e-8;
  const test::LinearCase one = test::ridge_case(test::seed(962));
  const std::vector<double> optimum = test::ridge_optimum(one);
  std::vector<double> before(optimum.size());
  int rounds = 0, reached = 0;
  double distance = HUGE_VAL;
  run_rounds(one, {.penalty = kPenalty, .local_solve = {.most_passes = 20}}, 400,
             [&](Job& job, AdmmRounds& solver, const Samples&) {
               const double own = squared_distance(solver.local(), solver.weights());
               const double apart = sum_over_ranks(job, std::span(&own, 1))[0];
               if (job.rank() != 0) return;
               ++rounds;
               const double moved = squared_distance(solver.weights(), before);
               before = solver.weights();
               const bool small = std::sqrt(apart) <= kTolerance &&
                                  kPenalty * std::sqrt(kRanks * moved) <= kTolerance;
               if (!small || reached > 0) return;
               reached = rounds;
               distance = std::sqrt(squared_distance(solver.weights(), optimum) /
                                    squared_distance(optimum, std::vector<double>(20)));
             });
  EXPECT_GT(reached, 0) << "within 400 rounds";
  EXPECT_LT(distance, 1e-6);
}

TEST(AdmmRoundsTest, ASmallerPenaltyAndOverRelaxationAreFasterOnRidgeRegression) {
  if (test::is_brief()) GTEST_SKIP() << "numbers alone: without sanitizers, and at night";
  const test::LinearCase one = test::ridge_case(test::seed(963));
  const std::vector<double> optimum = test::ridge_optimum(one);
  const auto distance = [&](const AdmmOptions& options) {
    std::vector<double> weights;
    run_rounds(one, options, 100, [&](Job& job, AdmmRounds& solver, const Samples&) {
      if (job.rank() == 0) weights = solver.weights();
    });
    return std::sqrt(squared_distance(weights, optimum));
  };
  const double usual = distance({.penalty = 0.05, .local_solve = {.most_passes = 20}});
  EXPECT_LT(distance({.penalty = 0.05, .relaxation = 1.6, .local_solve = {.most_passes = 20}}),
            usual / 10);
  EXPECT_LT(distance({.penalty = 0.02, .local_solve = {.most_passes = 20}}), usual / 100);
}

}  // namespace
}  // namespace paceline::linear::admm_rounds_test
