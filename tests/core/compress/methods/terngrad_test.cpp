#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/averaging_run.h"

namespace paceline::compress::terngrad_claims {
namespace {

using test::AveragingRun;
using test::mean_of;
using test::run_of;

TEST(TernGrad, SendsTwoBitsForEachElementAndOneScale) {
  AveragingRun run = run_of("terngrad", 3, 17, 59);
  run.step(test::gradients_of(3, 1003, 1), 1);
  EXPECT_EQ(run.payload_bytes, 3 * 2 * (4 + 251u));
}

TEST(TernGrad, OfOneRankHasThreeValues) {
  AveragingRun run = run_of("terngrad", 1, 17, 59);
  auto gradients = test::gradients_of(1, 1003, 1);
  gradients[0][5] = -7;
  const auto result = run.step(gradients, 1).means.front();
  for (const float value : result) EXPECT_TRUE(value == 0 || std::abs(value) == 7) << value;
}

// The published cut: fewer values become 0, and none becomes more than 2.5 root mean squares.
TEST(TernGrad, CutsLargeValuesToSoManyRootMeanSquares) {
  auto gradients = test::gradients_of(1, 1003, 1);
  gradients[0][5] = -1000;
  double squares = 0;
  for (const float value : gradients[0]) squares += static_cast<double>(value) * value;
  const auto scale = static_cast<float>(2.5 * std::sqrt(squares / 1003));
  AveragingRun run = run_of("terngrad:clip=2.5", 1, 17, 59);
  const auto result = run.step(gradients, 1).means.front();
  for (const float value : result) EXPECT_TRUE(value == 0 || std::abs(value) == scale) << value;
  EXPECT_EQ(result[5], -scale);
}

TEST(TernGrad, IsUnbiased) {
  const auto gradients = test::gradients_of(2, 64, 1);
  const auto mean = mean_of(gradients);
  AveragingRun run = run_of("terngrad", 2, 8, 8);
  std::vector<double> sum(64);
  constexpr int kDraws = 1000;
  for (std::uint32_t step = 0; step < kDraws; ++step) {
    const auto result = run.step(gradients, step).means.front();
    for (std::size_t i = 0; i < 64; ++i) sum[i] += static_cast<double>(result[i]);
  }
  const double deviation = 6.0 / 2 / std::sqrt(2.0 * kDraws);
  for (std::size_t i = 0; i < 64; ++i)
    EXPECT_LT(std::abs(sum[i] / kDraws - mean[i]), 5 * deviation);
}

}  // namespace
}  // namespace paceline::compress::terngrad_claims
