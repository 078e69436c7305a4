// Claims on the mean in a 16-bit type.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/support/averaging_run.h"

namespace paceline::compress::testing {

struct Cast {
  std::string method;
  double rounding = 0;               // relative, of a normal number
  float largest = 0, too_large = 0;  // the one still rounds to a finite number
};

inline void expect_mean_up_to_rounding(const Cast& cast) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    auto run = test::run_of(cast.method, ranks, 17, 59);
    const auto gradients = test::gradients_of(ranks, 1003, 1);
    const auto mean = test::mean_of(gradients);
    std::vector<double> magnitude(1003);
    for (const auto& gradient : gradients)
      for (std::size_t i = 0; i < 1003; ++i) magnitude[i] += std::abs(gradient[i]) / ranks;
    const auto result = run.step(gradients, 1).means.front();
    for (std::size_t i = 0; i < 1003; ++i)
      ASSERT_LE(std::abs(result[i] - mean[i]), 2 * (magnitude[i] + 1e-4) * cast.rounding) << i;
  }
}

inline void expect_two_bytes_in_one_all_reduce(const Cast& cast) {
  auto run = test::run_of(cast.method, 3, 17, 59);
  run.step(test::gradients_of(3, 1003, 1), 1);
  EXPECT_EQ(run.kinds, std::vector{Exchange::Kind::all_reduce});
  EXPECT_EQ(run.reduced_bytes, 2 * 1003u);
}

inline void expect_a_skipped_step_for_what_is_too_large(const Cast& cast) {
  auto run = test::run_of(cast.method, 3, 1, 5);
  test::Gradients gradients(3, std::vector<float>(5));
  gradients[1][4] = cast.largest;
  EXPECT_FALSE(run.step(gradients, 0).overflowed);
  gradients[1][4] = cast.too_large;
  EXPECT_TRUE(run.step(gradients, 1).overflowed);
}

}  // namespace paceline::compress::testing
