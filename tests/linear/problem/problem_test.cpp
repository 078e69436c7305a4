#include "paceline/linear/problem/problem.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

namespace paceline::linear {
namespace {

Problem problem_with(std::string_view loss, double l2, double l1) {
  return {.loss = parse_loss(loss).value(), .l2 = l2, .l1 = l1};
}

TEST(ProblemTest, TheRegulariserAndItsConjugateTouchWhereTheyShould) {
  // R*(v) = v.w - R(w) at w = soft(v, l1) / l2, and no other w gives more.
  const Problem problem = problem_with("squared", 0.5, 0.2);
  const std::array<double, 3> v = {1, -0.1, -0.7};
  std::array<double, 3> w = {};
  double product = 0;
  for (std::size_t j = 0; j < v.size(); ++j) {
    w[j] = soft_threshold(v[j], problem.l1) / problem.l2;
    product += v[j] * w[j];
  }
  EXPECT_DOUBLE_EQ(regulariser_conjugate(problem, v), product - regulariser(problem, w));
  w[0] += 0.01;
  product += 0.01 * v[0];
  EXPECT_LT(product - regulariser(problem, w), regulariser_conjugate(problem, v));
}

TEST(ProblemTest, ALabelThatTheLossCannotTakeIsNamed) {
  Samples samples{.rows = {}, .labels = {1, -1, 0, 3}};
  EXPECT_EQ(check_problem(problem_with("hinge", 1, 0), samples).error().what,
            "sample 3 has the label 0, which the loss hinge cannot take: it takes -1 and 1; change "
            "the labels, or choose squared, absolute or quantile for numbers");
  EXPECT_TRUE(check_problem(problem_with("squared", 1, 0), samples));
  samples.labels[1] = std::numeric_limits<double>::infinity();
  EXPECT_EQ(check_problem(problem_with("squared", 1, 0), samples).error().what,
            "sample 2 has the label inf, which the loss squared cannot take: it takes finite "
            "numbers");
}

TEST(ProblemTest, EmptyDataAndNegativeRegularisersAreRefused) {
  const Samples none, one{.rows = {}, .labels = {1}};
  EXPECT_EQ(check_problem(problem_with("hinge", 1, 0), none).error().fault, Fault::misuse);
  EXPECT_EQ(check_problem(problem_with("hinge", -1, 0), one).error().what,
            "l2 is -1; it must be a number of 0 or more");
  EXPECT_EQ(check_problem(problem_with("hinge", 1, NAN), one).error().what,
            "l1 is nan; it must be a number of 0 or more");
}

}  // namespace
}  // namespace paceline::linear
