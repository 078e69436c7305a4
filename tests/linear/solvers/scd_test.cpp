#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "paceline/core/base/chunk.h"
#include "paceline/core/base/seed.h"
#include "tests/linear/linear_problems.h"
#include "tests/support/seed.h"

namespace paceline::linear {
namespace {

// Each part moves its own weights by uniform draws, while the others' predictions stay.
std::vector<double> serial_scd(const test::LinearCase& one, int ranks, int rounds) {
  const std::size_t width = one.samples.rows.width;
  const auto n = static_cast<double>(one.samples.size());
  std::vector<double> weights(width), predictions(one.samples.size());
  for (int round = 0; round < rounds; ++round) {
    std::vector<double> next = weights;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::size_t first = chunk_offset(width, ranks, rank);
      const std::size_t count = chunk_offset(width, ranks, rank + 1) - first;
      SeededNumbers numbers(seed_of(1, rank, round));
      std::vector<double> here = weights;
      for (std::size_t step = 0; step < count; ++step) {
        const std::size_t j = first + numbers.below(count);
        double slope = one.problem.l2 * here[j], curvature = one.problem.l2;
        for (std::size_t i = 0; i < one.samples.size(); ++i) {
          const SparseVector row = one.samples.rows.row(i);
          slope += row.values[j] * (dot(row, here) - one.samples.labels[i]) / n;
          curvature += row.values[j] * row.values[j] / n;
        }
        here[j] -= slope / curvature;
      }
      for (std::size_t j = first; j < first + count; ++j)
        next[j] = weights[j] + (here[j] - weights[j]) / ranks;
    }
    weights = next;
  }
  return weights;
}

TEST(ScdTest, OnRanksItIsTheSerialForm) {
  const test::LinearCase one = test::ridge_case(test::seed(101), 60, 9);
  for (int ranks = 1; ranks <= 4; ++ranks) {
    const auto run = test::run_solver(one, "scd", ranks, 20);
    EXPECT_LT(test::largest_difference(run.weights, serial_scd(one, ranks, 20)), 1e-10) << ranks;
    EXPECT_EQ(run.bytes_brought, ranks == 1 ? 0u : 20u * 8 * 60) << "8 bytes a sample a round";
  }
}

TEST(ScdTest, BothKindsOfDrawsAndAFreeRateReachTheOptimum) {
  const test::LinearCase one = test::ridge_case(test::seed(102));
  for (const std::string_view solver :
       {"scd:steps=2000", "scd:steps=2000,draws=curvature", "scd:steps=4000,rate=10"}) {
    const auto run = test::run_solver(one, solver, 1, 1);
    EXPECT_LT(test::largest_difference(run.weights, test::ridge_optimum(one)), 1e-6) << solver;
  }
}

TEST(ScdTest, OneSampleAStepReachesTheOptimumAsTheRateFalls) {
  const test::LinearCase one = test::ridge_case(test::seed(103));
  const auto optimum = test::ridge_optimum(one);
  double length = 0, distance = 0;
  const auto run = test::run_solver(one, "scd:steps=40000,samples=1,rate=2,decay=2000", 1, 1);
  for (std::size_t j = 0; j < optimum.size(); ++j) {
    length += optimum[j] * optimum[j];
    distance += (run.weights[j] - optimum[j]) * (run.weights[j] - optimum[j]);
  }
  EXPECT_LT(distance / length, 0.1 * 0.1);
  EXPECT_THROW(test::run_solver(one, "scd:samples=1", 1, 1), Error) << "1/L_j is no rate for it";
}

// Each sample has one feature, so at a tiny rate a weight tells how often its feature was drawn.
TEST(ScdTest, FeaturesAreDrawnAsOftenAsTheKindOfDrawsSays) {
  constexpr std::size_t kFeatures = 5;
  constexpr double kSteps = 20000, kRate = 1e-9;
  test::LinearCase one{{.loss = parse_loss("squared").value()}, {}};
  double sum = 0;
  for (std::uint32_t j = 0; j < kFeatures; ++j) {
    const std::array<std::uint32_t, 1> index = {j};
    const std::array<double, 1> value = {1.0 + j};
    one.samples.rows.append({index, value});
    one.samples.labels.push_back(1);
    sum += value[0] * value[0];
  }
  for (const bool by_curvature : {false, true}) {
    const auto run = test::run_solver(
        one,
        by_curvature ? "scd:steps=20000,rate=1e-9,draws=curvature" : "scd:steps=20000,rate=1e-9", 1,
        1);
    for (std::size_t j = 0; j < kFeatures; ++j) {
      const double value = 1.0 + static_cast<double>(j);
      const double drawn = run.weights[j] * kFeatures / (kRate * value);
      const double p = by_curvature ? value * value / sum : 1.0 / kFeatures;
      EXPECT_NEAR(drawn, kSteps * p, 5 * std::sqrt(kSteps * p * (1 - p))) << j;
    }
  }
}

TEST(ScdTest, DrawsInProportionPreferSteepFeatures) {
  // Two features without overlap, one ten times as long: with one step, the long one moves.
  test::LinearCase one{{.loss = parse_loss("squared").value()}, {}};
  const std::array<std::uint32_t, 1> first = {0}, second = {1};
  const std::array<double, 1> large = {100}, small = {0.01};
  one.samples.rows.append({first, large});
  one.samples.rows.append({second, small});
  one.samples.labels = {1, 1};
  const auto run = test::run_solver(one, "scd:steps=50,draws=curvature", 1, 1);
  EXPECT_NE(run.weights[0], 0);
  EXPECT_EQ(run.weights[1], 0);
}

}  // namespace
}  // namespace paceline::linear
