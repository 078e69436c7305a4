#include "paceline/linear/solver/dual_block.h"

#include <gtest/gtest.h>

#include "tests/linear/linear_problems.h"
#include "tests/support/seed.h"

namespace paceline::linear {
namespace {

constexpr double kL2 = 0.01;

double squared_length(const std::vector<double>& weights) {
  double sum = 0;
  for (const double w : weights) sum += w * w;
  return sum;
}

TEST(DualBlockTest, NoStepLowersTheDualAndTheWeightsAreThoseOfTheVariables) {
  for (const Loss& entry : built_in_losses()) {
    const test::LinearCase one = entry.labels == Labels::signs
                                     ? test::sign_case(test::seed(21), entry.name, 120, 6)
                                     : test::ridge_case(test::seed(21), 120, 6);
    const ChosenLoss loss = parse_loss(entry.name).value();
    const auto n = static_cast<double>(one.samples.size());
    DualBlock block(one.samples, loss, kL2 * n);
    std::vector<double> weights(6);
    block.add_to(weights);
    double dual = block.value() / n - kL2 / 2 * squared_length(weights);
    for (int pass = 0; pass < 5; ++pass) {
      for (const std::size_t i : permutation(one.samples.size(), test::seed(22))) {
        block.step(i, weights);
        const double next = block.value() / n - kL2 / 2 * squared_length(weights);
        ASSERT_GE(next, dual - 1e-15 * (1 + std::abs(dual))) << entry.name;
        dual = next;
      }
    }
    std::vector<double> meant(6);
    block.add_to(meant);
    EXPECT_LT(test::largest_difference(weights, meant), 1e-10) << entry.name;
  }
}

// Liblinear's dual coordinate descent has C = 1 / (lambda n), and variables within [0, C].
TEST(DualBlockTest, WithTheHingeItIsLiblinearsDualCoordinateDescent) {
  const test::LinearCase one = test::sign_case(test::seed(23), "hinge", 100, 10);
  const double scale = kL2 * static_cast<double>(one.samples.size());
  DualBlock block(one.samples, one.problem.loss, scale);
  std::vector<double> weights(10), theirs(10), variables(one.samples.size());
  for (int pass = 0; pass < 10; ++pass) {
    for (const std::size_t i : permutation(one.samples.size(), seed_of(1, 0, pass))) {
      block.step(i, weights);
      const SparseVector row = one.samples.rows.row(i);
      const double y = one.samples.labels[i];
      const double next =
          std::clamp(variables[i] - (y * dot(row, theirs) - 1) / squared_norm(row), 0.0, 1 / scale);
      add((next - variables[i]) * y, row, theirs);
      variables[i] = next;
    }
  }
  EXPECT_LT(test::largest_difference(weights, theirs), 1e-12);
}

TEST(DualBlockTest, ZeroRowsDoNotKeepTheGapOpen) {
  test::LinearCase one = test::ridge_case(test::seed(24), 50, 5);
  one.samples.rows.append({});
  one.samples.labels.push_back(2);
  for (const std::string_view loss : {"squared", "absolute"}) {
    one.problem.loss = parse_loss(loss).value();
    const auto run = test::run_solver(one, "sdca", 1, 300);
    // A loss with kinks takes longer; a row that is left out would keep the gap above 0.03.
    EXPECT_LT(run.objectives.back().gap(), loss == "squared" ? 1e-12 : 2e-3) << loss;
  }
  test::LinearCase signs = test::sign_case(test::seed(25), "smooth_hinge", 100, 10);
  signs.samples.rows.append({});
  signs.samples.labels.push_back(1);
  EXPECT_LT(test::run_solver(signs, "sdca", 1, 100).objectives.back().gap(), 1e-12);
}

}  // namespace
}  // namespace paceline::linear
