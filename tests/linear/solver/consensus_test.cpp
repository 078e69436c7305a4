#include "paceline/linear/solver/consensus.h"

#include <gtest/gtest.h>

#include "tests/linear/linear_problems.h"
#include "tests/support/seed.h"

namespace paceline::linear {
namespace {

// The local problem is a ridge regression around a centre: its offset from the centre is that of
// the residuals there, with the penalty as l2.
std::vector<double> closed_form(test::LinearCase one, double penalty,
                                const std::vector<double>& centre) {
  one.problem.l2 = penalty;
  for (std::size_t i = 0; i < one.samples.size(); ++i)
    one.samples.labels[i] -= dot(one.samples.rows.row(i), centre);
  std::vector<double> x = test::ridge_optimum(one);
  for (std::size_t j = 0; j < x.size(); ++j) x[j] += centre[j];
  return x;
}

TEST(ConsensusTest, TheLocalProblemIsSolvedAroundItsCentreAndAgainAfterThePenaltyChanges) {
  const test::LinearCase one = test::ridge_case(test::seed(41), 50, 6);
  const std::vector<double> centre = {1, -1, 0.5, 0, 2, 0.1};
  LocalProblem local(one.problem, one.samples, 50, 0.05, 1, {.most_passes = 200});
  EXPECT_LT(test::largest_difference(local.solve(centre), closed_form(one, 0.05, centre)), 1e-12);
  local.set_penalty(0.2);
  EXPECT_LT(test::largest_difference(local.solve(centre), closed_form(one, 0.2, centre)), 1e-12);
}

TEST(ConsensusTest, AnAccuracyIsReachedAndNoMorePassesAreMade) {
  const test::LinearCase one = test::ridge_case(test::seed(42), 50, 6);
  const std::vector<double> centre(6, 0.5);
  LocalProblem loose(one.problem, one.samples, 50, 0.05, 1, {.most_passes = 200, .accuracy = 1e-3});
  LocalProblem once(one.problem, one.samples, 50, 0.05, 1, {.most_passes = 1});
  const std::vector<double> exact = closed_form(one, 0.05, centre), rough = loose.solve(centre);
  // The objective is 0.05-strongly convex, so a gap of 1e-3 bounds the distance.
  EXPECT_LT(test::largest_difference(rough, exact), std::sqrt(2 * 1e-3 / 0.05));
  EXPECT_GT(test::largest_difference(rough, exact), 1e-8);
  EXPECT_GT(test::largest_difference(once.solve(centre), exact), 1e-8);
}

TEST(ConsensusTest, TheConsensusMinimisesTheRegulariserAndTheDistances) {
  const test::LinearCase one = test::ridge_case(1, 5, 2);
  Problem problem = one.problem;
  problem.l2 = 0.3;
  problem.l1 = 0.2;
  constexpr int kRanks = 3;
  constexpr double kPenalty = 0.5;
  for (const double sum : {2.0, -0.9, 0.1}) {
    std::vector<double> z = {sum};
    consensus_of(problem, kRanks, kPenalty, z);
    const auto cost = [&](double at) {
      const double apart = at - sum / kRanks;
      return regulariser(problem, std::vector<double>{at}) + kRanks * kPenalty / 2 * apart * apart;
    };
    for (const double other : {z[0] - 1e-4, z[0] + 1e-4}) EXPECT_LT(cost(z[0]), cost(other));
  }
}

}  // namespace
}  // namespace paceline::linear
