#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/averaging_run.h"

namespace paceline::compress::adacomp_claims {
namespace {

using test::AveragingRun;
using test::run_of;

// One rank's part in a step, written down a second time as plainly as possible.
struct Model {
  std::size_t bin;
  std::vector<float> residual;
  std::size_t sent = 0;

  std::vector<float> step(const std::vector<float>& gradient) {
    const std::size_t n = gradient.size();
    std::vector<float> acc(n), decoded(n), largest((n + bin - 1) / bin);
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) {
      acc[i] = gradient[i] + residual[i];
      largest[i / bin] = std::max(largest[i / bin], std::abs(acc[i]));
    }
    for (const float one : largest) sum += one;
    const auto scale = static_cast<float>(sum / static_cast<double>(largest.size()));
    sent = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (largest[i / bin] == 0 || std::abs(acc[i] + gradient[i]) < largest[i / bin]) continue;
      decoded[i] = acc[i] < 0 ? -scale : scale;
      ++sent;
    }
    for (std::size_t i = 0; i < n; ++i) residual[i] = acc[i] - decoded[i];
    return decoded;
  }
};

TEST(AdaComp, IsTheModelsBitForBitAndSoAreItsBytes) {
  for (const auto& [bin, width] : {std::pair{1, 1u}, {50, 1u}, {127, 1u}, {128, 2u}, {500, 2u}}) {
    const auto length = static_cast<std::size_t>(bin);
    AveragingRun run = run_of("adacomp:bin=" + std::to_string(bin), 2, 17, 59);
    std::vector<Model> models(2, {length, std::vector<float>(1003)});
    for (std::uint32_t step = 0; step < 10; ++step) {
      const auto gradients = test::gradients_of(2, 1003, step);
      const auto mean = run.step(gradients, step).means.front();
      const auto one = models[0].step(gradients[0]), other = models[1].step(gradients[1]);
      for (std::size_t i = 0; i < mean.size(); ++i)
        ASSERT_EQ(mean[i], (one[i] + other[i]) * 0.5F) << "element " << i << ", bins of " << bin;
      const std::size_t bins = (1003 + length - 1) / length;
      EXPECT_EQ(run.payload_bytes,
                2 * (4 + width * bins) + width * (models[0].sent + models[1].sent));
      for (int rank = 0; rank < 2; ++rank)
        EXPECT_EQ(run.values(rank, "residual"), models[static_cast<std::size_t>(rank)].residual);
    }
  }
}

TEST(AdaComp, BinsOfZerosSendNothing) {
  AveragingRun run = run_of("adacomp", 3, 20, 50);
  const auto outcome = run.step(test::Gradients(3, std::vector<float>(1000)), 0);
  EXPECT_EQ(outcome.means.front(), std::vector<float>(1000));
  EXPECT_EQ(run.payload_bytes, 3 * 2 * (4 + 20u));
}

TEST(AdaComp, LosesNoMoreThanRounding) {
  for (const char* text : {"adacomp", "adacomp:bin=7", "adacomp:bin=300"}) {
    AveragingRun run = run_of(text, 4, 17, 59);
    EXPECT_LT(lost_over(40, run, 4, 1003, test::mean_state(4)), 1e-5) << text;
  }
}

// 10 % in the model, with bins of 50.
TEST(AdaComp, SendsATenthOfWhiteNoise) {
  AveragingRun run = run_of("adacomp", 2, 100, 50);
  std::size_t sent = 0;
  for (std::uint32_t step = 0; step < 100; ++step) {
    run.step(test::gradients_of(2, 5000, step), step);
    if (step >= 50) sent += run.payload_bytes - 2 * (4 + 100);
  }
  EXPECT_NEAR(static_cast<double>(sent) / (50 * 2 * 5000), 0.1, 0.02);
}

}  // namespace
}  // namespace paceline::compress::adacomp_claims
