#include "paceline/linear/problem/objective.h"

#include <gtest/gtest.h>

#include "paceline/core/base/seed.h"
#include "tests/linear/linear_problems.h"
#include "tests/support/local_world.h"
#include "tests/support/seed.h"

namespace paceline::linear {
namespace {

Objective measured_on(const test::LinearCase& one, const std::vector<double>& weights, int ranks) {
  Objective found;
  test::run_ranks(ranks, [&](Job& job) {
    const Samples own = select(one.samples, part_of(one.samples.size(), Split::contiguous, 1,
                                                    job.rank(), job.world_size()));
    const Objective here =
        objective(one.problem, own, one.samples.size(), weights, {}, job.world());
    if (job.rank() == 0) found = here;
  });
  return found;
}

TEST(ObjectiveTest, TheDualIsNeverAbovePrimalsOfOtherWeights) {
  SeededNumbers numbers(test::seed(11));
  for (const double l2 : {0.05, 0.0}) {
    test::LinearCase one = test::ridge_case(test::seed(12), 60, 8);
    one.problem.l2 = l2;
    one.problem.l1 = 0.01;
    double highest_dual = -1, lowest_primal = 1e9;
    for (int i = 0; i < 20; ++i) {
      std::vector<double> weights(8);
      for (double& w : weights) w = 2 * numbers.unit() - 1;
      const Objective found = measured_on(one, weights, 1);
      highest_dual = std::max(highest_dual, found.dual);
      lowest_primal = std::min(lowest_primal, found.primal);
    }
    EXPECT_LE(highest_dual, lowest_primal);
  }
}

TEST(ObjectiveTest, TheGapClosesAtTheOptimum) {
  const test::LinearCase one = test::ridge_case(test::seed(13), 60, 8);
  EXPECT_LT(std::abs(measured_on(one, test::ridge_optimum(one), 1).gap()), 1e-14);
}

TEST(ObjectiveTest, RanksMeasureWhatOneProcessMeasures) {
  const test::LinearCase one = test::ridge_case(test::seed(14), 61, 8);
  const std::vector<double> weights = {1, 2, 3, 4, -1, -2, -3, -4};
  const Objective alone = measured_on(one, weights, 1), together = measured_on(one, weights, 3);
  EXPECT_NEAR(alone.primal, together.primal, 1e-12);
  EXPECT_NEAR(alone.dual, together.dual, 1e-12);
}

TEST(ObjectiveTest, AccuracyCountsSignsAndIsNothingForNumbers) {
  Samples samples{.rows = {.width = 1}, .labels = {1, -1, 1}};
  const std::array<std::uint32_t, 1> first = {0};
  const std::array<double, 1> up = {1}, down = {-1};
  samples.rows.append({first, up});
  samples.rows.append({first, down});
  samples.rows.append({});  // its prediction is 0, which counts as -1
  test::run_ranks(1, [&](Job& job) {
    EXPECT_DOUBLE_EQ(*accuracy(samples, std::vector<double>{2}, job.world()), 2.0 / 3);
    samples.labels[0] = 0.5;
    EXPECT_FALSE(accuracy(samples, std::vector<double>{2}, job.world()));
  });
}

}  // namespace
}  // namespace paceline::linear
