#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/averaging_run.h"

namespace paceline::compress::one_bit_adam_claims {
namespace {

using test::AveragingRun;
using test::mean_of;
using test::run_of;

TEST(OneBitAdam, IsAdamOfTheMeanUntilItsVarianceIsFrozen) {
  AveragingRun run = run_of("one_bit_adam:freeze_step=5", 3, 1, 50);
  std::vector<double> momentum(50), variance(50);
  for (std::uint32_t step = 0; step < 5; ++step) {
    const auto gradients = test::gradients_of(3, 50, step);
    const auto mean = mean_of(gradients);
    const auto result = run.step(gradients, step).means.front();
    EXPECT_EQ(run.reduced_bytes, 4 * 50u);
    for (std::size_t i = 0; i < 50; ++i) {
      momentum[i] = 0.9 * momentum[i] + 0.1 * mean[i];
      variance[i] = 0.999 * variance[i] + 0.001 * mean[i] * mean[i];
      ASSERT_NEAR(result[i], momentum[i] / (std::sqrt(variance[i]) + 1e-8), 1e-3);
    }
  }
  const auto frozen = run.values(0, "variance");
  run.step(test::gradients_of(3, 50, 5), 5);
  EXPECT_EQ(run.values(1, "variance"), frozen);
  EXPECT_EQ(run.payload_bytes, (2 * 7 + 8 * 3) * 2u);
}

TEST(OneBitAdam, SendsMomentaByTheTwoStagesAfterwards) {
  AveragingRun run = run_of("one_bit_adam:freeze_step=1", 4, 1, 64);
  AveragingRun signs = run_of("ef_sign:path=owners", 4, 1, 64);
  run.step(test::gradients_of(4, 64, 0), 0);
  for (std::uint32_t step = 1; step < 6; ++step) {
    const auto gradients = test::gradients_of(4, 64, step);
    const auto before = run.values(0, "momentum");
    const auto variance = run.values(0, "variance");
    test::Gradients momenta = gradients;
    for (auto& momentum : momenta)
      for (std::size_t i = 0; i < 64; ++i)
        momentum[i] = 0.9f * before[i] + (1 - 0.9f) * momentum[i];
    const auto expected = signs.step(momenta, step).means.front();
    const auto result = run.step(gradients, step).means.front();
    EXPECT_EQ(run.values(2, "momentum"), expected);
    for (std::size_t i = 0; i < 64; ++i)
      ASSERT_EQ(result[i], expected[i] / (std::sqrt(variance[i]) + 1e-8f));
  }
}

TEST(OneBitAdam, LeavesElementsAloneThatNeverHadAGradient) {
  AveragingRun run = run_of("one_bit_adam:freeze_step=1", 2, 1, 16);
  for (std::uint32_t step = 0; step < 4; ++step) {
    auto gradients = test::gradients_of(2, 16, step);
    for (auto& gradient : gradients) gradient[3] = 0;
    EXPECT_EQ(run.step(gradients, step).means.front()[3], 0);
  }
}

}  // namespace
}  // namespace paceline::compress::one_bit_adam_claims
