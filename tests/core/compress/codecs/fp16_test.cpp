// Also covers paceline/core/compress/cast_average.h.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/averaging_run.h"

namespace paceline::compress {
namespace {

using test::AveragingRun;
using test::mean_of;
using test::run_of;

TEST(Fp16, IsTheMeanUpToTheRoundingOfTheType) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    AveragingRun run = run_of("fp16", ranks, 17, 59);
    const auto gradients = test::gradients_of(ranks, 1003, 1);
    const auto mean = mean_of(gradients);
    std::vector<double> magnitude(1003);
    for (const auto& gradient : gradients)
      for (std::size_t i = 0; i < 1003; ++i) magnitude[i] += std::abs(gradient[i]) / ranks;
    const auto result = run.step(gradients, 1).means.front();
    for (std::size_t i = 0; i < 1003; ++i)
      ASSERT_LE(std::abs(result[i] - mean[i]), 2 * (magnitude[i] + 1e-4) / 2048) << i;
  }
}

TEST(Fp16, SendsTwoBytesForEachElementInOneAllReduce) {
  AveragingRun run = run_of("fp16", 3, 17, 59);
  run.step(test::gradients_of(3, 1003, 1), 1);
  EXPECT_EQ(run.kinds, std::vector{Exchange::Kind::all_reduce});
  EXPECT_EQ(run.reduced_bytes, 2 * 1003u);
}

TEST(Fp16, SkipsTheStepForAFiniteValueThatIsTooLarge) {
  AveragingRun run = run_of("fp16", 3, 1, 5);
  test::Gradients gradients(3, std::vector<float>(5));
  gradients[1][4] = 65504.0f;
  EXPECT_FALSE(run.step(gradients, 0).overflowed);
  gradients[1][4] = 65520.0f;
  EXPECT_TRUE(run.step(gradients, 1).overflowed);
}

}  // namespace
}  // namespace paceline::compress
