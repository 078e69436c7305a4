#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/averaging_run.h"

namespace paceline::compress::qsgd_claims {
namespace {

using test::AveragingRun;
using test::mean_of;
using test::run_of;

TEST(Qsgd, SendsNormsAndLevelsOfSoManyBits) {
  for (const auto& [text, bytes] : {std::pair{"qsgd", 4 * 2 + 502u},
                                    {"qsgd:bits=8,bucket=64", 4 * 16 + 1003u},
                                    {"qsgd:bits=2,bucket=5000", 4 + 251u}}) {
    AveragingRun run = run_of(text, 3, 17, 59);
    run.step(test::gradients_of(3, 1003, 1), 1);
    EXPECT_EQ(run.payload_bytes, 3 * 2 * bytes);
  }
}

TEST(Qsgd, IsUnbiasedAsAMeanOverRanks) {
  const auto gradients = test::gradients_of(3, 256, 1);
  const auto mean = mean_of(gradients);
  AveragingRun run = run_of("qsgd:norm=max,bits=8", 3, 16, 16);
  std::vector<double> sum(256);
  constexpr int kDraws = 400;
  for (std::uint32_t step = 0; step < kDraws; ++step) {
    const auto result = run.step(gradients, step).means.front();
    for (std::size_t i = 0; i < 256; ++i) sum[i] += static_cast<double>(result[i]);
  }
  // A level is at most 6 / 127 wide; half of it is the deviation of one draw of one rank.
  const double deviation = 6.0 / 127 / 2 / std::sqrt(3.0 * kDraws);
  for (std::size_t i = 0; i < 256; ++i)
    ASSERT_LT(std::abs(sum[i] / kDraws - mean[i]), 5 * deviation);
}

double residual_after(const char* text) {
  AveragingRun run = run_of(text, 1, 17, 59);
  const auto gradients = test::gradients_of(1, 1003, 5);
  for (std::uint32_t step = 0; step < 250; ++step) run.step(gradients, step);
  double residual = 0, gradient = 0;
  for (const float value : run.values(0, "residual")) residual += std::pow(value, 2);
  for (const float value : gradients.front()) gradient += std::pow(value, 2);
  return std::sqrt(residual / gradient);
}

TEST(Qsgd, WithFeedbackDivergesWhereItsVarianceIsLargeUnlessItIsScaled) {
  EXPECT_GT(residual_after("qsgd:feedback=on"), 1e4);
  EXPECT_LT(residual_after("qsgd:feedback=on,gain=0.385"), 10);
  EXPECT_LT(residual_after("qsgd:feedback=on,bucket=64"), 10);
}

TEST(Qsgd, WithFeedbackLosesNoMoreThanRounding) {
  AveragingRun run = run_of("qsgd:feedback=on,bucket=64", 4, 17, 59);
  EXPECT_LT(lost_over(40, run, 4, 1003, test::mean_state(4)), 1e-5);
}

}  // namespace
}  // namespace paceline::compress::qsgd_claims
