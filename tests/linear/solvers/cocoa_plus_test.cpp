#include <gtest/gtest.h>

#include "tests/linear/linear_problems.h"
#include "tests/support/seed.h"

namespace paceline::linear {
namespace {

TEST(CocoaPlusTest, UnevenAndEmptyPartsReachTheOptimumToo) {
  for (const std::size_t samples : {3u, 41u}) {
    test::LinearCase one = test::ridge_case(test::seed(81), samples, 5);
    one.problem.l2 = 0.1;
    for (const Split split : {Split::contiguous, Split::shuffled}) {
      const auto run = test::run_solver(one, "cocoa_plus", 4, 120, split);
      EXPECT_LT(run.objectives.back().gap(), 1e-9) << samples;
      EXPECT_LT(test::largest_difference(run.weights, test::ridge_optimum(one)), 1e-4);
    }
  }
}

}  // namespace
}  // namespace paceline::linear
