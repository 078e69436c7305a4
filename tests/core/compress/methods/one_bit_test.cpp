#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/averaging_run.h"

namespace paceline::compress::one_bit_claims {
namespace {

using test::AveragingRun;
using test::mean_of;
using test::run_of;

TEST(OneBit, SendsABitForEachElementAndTwoMeans) {
  for (const auto& [text, bytes] :
       {std::pair{"one_bit", 8 + 126u}, {"one_bit:means=columns", 8 * 59 + 126u}}) {
    AveragingRun run = run_of(text, 3, 17, 59);
    run.step(test::gradients_of(3, 1003, 1), 1);
    EXPECT_EQ(run.payload_bytes, 3 * 2 * bytes);
  }
}

TEST(OneBit, LosesNoMoreThanRounding) {
  for (const char* text : {"one_bit", "one_bit:means=columns"}) {
    AveragingRun run = run_of(text, 4, 17, 59);
    EXPECT_LT(lost_over(40, run, 4, 1003, test::mean_state(4)), 1e-5);
  }
}

TEST(OneBit, AStepKeepsTheSumsOfColumns) {
  AveragingRun run = run_of("one_bit:means=columns", 2, 17, 59);
  const auto gradients = test::gradients_of(2, 1003, 1);
  const auto mean = mean_of(gradients);
  const auto result = run.step(gradients, 1).means.front();
  for (std::size_t column = 0; column < 59; ++column) {
    double lost = 0;
    for (std::size_t row = 0; row < 17; ++row)
      lost += static_cast<double>(result[row * 59 + column]) - mean[row * 59 + column];
    EXPECT_LT(std::abs(lost), 1e-4);
  }
}

}  // namespace
}  // namespace paceline::compress::one_bit_claims
