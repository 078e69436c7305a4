// Also covers paceline/linear/solver/feature_part.cpp.
#include "paceline/linear/solver/coordinate_rounds.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>

#include "tests/linear/linear_problems.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::linear {
namespace {

// Two samples with two identical features, and no regulariser: the sum of the weights alone
// matters.
constexpr double kBestSum = 1.4;  // (1 * 1 + 2 * 3) / (1 + 4)

test::LinearCase identical_columns() {
  test::LinearCase one{{.loss = parse_loss("squared").value()}, {}};
  const std::array<std::uint32_t, 2> both = {0, 1};
  for (const double value : {1.0, 2.0}) {
    const std::array<double, 2> values = {value, value};
    one.samples.rows.append({both, values});
  }
  one.samples.labels = {1, 3};
  return one;
}

TEST(CoordinateRoundsTest, WithAFullShareTwoIdenticalColumnsOscillateForEver) {
  const auto sum_after = [](int rounds) {
    const auto run =
        test::run_solver(identical_columns(), "feature_split:step=coordinate,share=1", 2, rounds);
    return run.weights[0] + run.weights[1];
  };
  for (const int rounds : {1, 3, 7}) EXPECT_NEAR(sum_after(rounds), 2 * kBestSum, 1e-14);
  for (const int rounds : {2, 4, 8}) EXPECT_NEAR(sum_after(rounds), 0, 1e-14);
}

// A regulariser makes the full share contract, but slowly.
TEST(CoordinateRoundsTest, WithL2TheFullShareEndsAtTheOptimumAfterManyRounds) {
  test::LinearCase one = identical_columns();
  one.problem.l2 = 0.2;
  const auto run = test::run_solver(one, "feature_split:step=coordinate,share=1", 2, 400);
  EXPECT_LT(test::largest_difference(run.weights, test::ridge_optimum(one)), 1e-6);
  EXPECT_GT(run.objectives[1].primal, run.objectives[399].primal + 0.1);
}

TEST(CoordinateRoundsTest, WithHalfASharePerRankTheyAreSolvedInOneRound) {
  const auto run = test::run_solver(identical_columns(), "feature_split:step=coordinate", 2, 1);
  EXPECT_NEAR(run.weights[0] + run.weights[1], kBestSum, 1e-14);
}

TEST(CoordinateRoundsTest, ASearchFindsTheBestShareForTwentyFourBytesMore) {
  const auto solved =
      test::run_solver(identical_columns(), "feature_split:step=coordinate,search=on", 2, 1);
  EXPECT_NEAR(solved.weights[0] + solved.weights[1], kBestSum, 1e-7);
  EXPECT_EQ(solved.bytes_brought, 2u * 8 + 24);
  const test::LinearCase one = test::sign_case(test::seed(52), "logistic", 60, 12);
  const auto searched = test::run_solver(one, "feature_split:step=coordinate,search=on", 4, 30);
  for (const double share : {0.1, 0.25, 0.5, 0.75, 1.0}) {
    const auto fixed =
        test::run_solver(one, "feature_split:step=coordinate,share=" + std::to_string(share), 4, 1);
    EXPECT_LE(searched.objectives[0].primal, fixed.objectives[0].primal + 1e-13) << share;
  }
  for (std::size_t k = 1; k < searched.objectives.size(); ++k)
    EXPECT_LE(searched.objectives[k].primal, searched.objectives[k - 1].primal + 1e-13);
  for (const char* wrong : {"search=on,share=0.5", "search=on,step=exact"})
    EXPECT_THROW(test::run_solver(one, std::string("feature_split:") + wrong, 1, 1), Error);
  test::LinearCase with_l1 = one;
  with_l1.problem.l1 = 0.01;
  EXPECT_THROW(test::run_solver(with_l1, "scd:search=on", 1, 1), Error);
}

// If the predictions had drifted, the same would be missing at the optimum.
TEST(CoordinateRoundsTest, AfterAThousandRoundsThePredictionsAreStillThoseOfTheWeights) {
  const test::LinearCase one = test::ridge_case(test::seed(53), 200, 12);
  const auto run =
      test::run_solver(one, "feature_split:step=coordinate", 3, test::is_brief() ? 400 : 1000);
  EXPECT_LT(test::largest_difference(run.weights, test::ridge_optimum(one)), 1e-12);
}

// Columns of very different lengths that resemble each other, and ranks that solve their own part
// of the problem almost exactly.
TEST(CoordinateRoundsTest, TheSafeShareNeverRaisesTheObjectiveOnAnyNumberOfRanks) {
  const std::uint64_t seeds = test::is_nightly() ? 10 : 2;
  for (std::uint64_t data = 0; data < seeds; ++data) {
    test::LinearCase one = test::ridge_case(test::seed(540 + data), 60, 12);
    SparseRows rows{.width = 12};
    for (std::size_t i = 0; i < one.samples.size(); ++i) {
      const SparseVector row = one.samples.rows.row(i);
      std::vector<double> values(row.values.begin(), row.values.end());
      for (std::size_t j = 0; j < values.size(); ++j)
        values[j] = values[j] * static_cast<double>(j + 1) + 2;
      rows.append({row.indices, values});
    }
    one.samples.rows = rows;
    for (const int ranks : {2, 3, 6, 12}) {
      const auto run = test::run_solver(one, "feature_split:step=coordinate,passes=50", ranks, 20);
      double before = HUGE_VAL;
      for (const Objective& next : run.objectives) {
        EXPECT_LE(next.primal, before + 1e-13) << ranks << " ranks";
        before = next.primal;
      }
    }
  }
}

TEST(CoordinateRoundsTest, TheSafeShareNeverRaisesTheObjective) {
  for (const std::string_view solver : {"scd", "feature_split:step=coordinate,passes=3"}) {
    test::LinearCase one = test::sign_case(test::seed(51), "logistic", 60, 12);
    one.problem.l1 = 0.002;
    const auto run = test::run_solver(one, solver, 4, 40);
    for (std::size_t k = 1; k < run.objectives.size(); ++k)
      EXPECT_LE(run.objectives[k].primal, run.objectives[k - 1].primal + 1e-13) << solver;
  }
}

}  // namespace
}  // namespace paceline::linear
