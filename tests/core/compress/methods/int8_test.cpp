#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/averaging_run.h"

namespace paceline::compress::int8_claims {
namespace {

using test::AveragingRun;
using test::mean_of;
using test::run_of;

constexpr std::size_t kElements = 700;

TEST(Int8, SendsANormForEachBucketAndAByteForEachElement) {
  for (const auto& [text, bytes] : {std::pair{"int8", 4 * 2 + 700u},
                                    {"int8:bits=16", 4 * 2 + 1400u},
                                    {"int8:bucket=7", 4 * 100 + 700u}}) {
    AveragingRun run = run_of(text, 3, 10, 70);
    run.step(test::gradients_of(3, kElements, 1), 1);
    EXPECT_EQ(run.reduced_bytes, bytes);
    EXPECT_EQ(run.kinds, (std::vector{Exchange::Kind::all_reduce, Exchange::Kind::all_reduce}));
  }
}

// Integers never overflow in a sum, not even where all ranks have the largest value.
TEST(Int8, IsExactForTheLargestValueOfABucketOnAnyNumberOfRanks) {
  for (const int ranks : {1, 2, 3, 8, 127}) {
    AveragingRun run = run_of("int8", ranks, 1, 3);
    const auto result =
        run.step(test::Gradients(static_cast<std::size_t>(ranks), {4, -4, 0}), 1).means.front();
    EXPECT_FLOAT_EQ(result[0], 4);
    EXPECT_FLOAT_EQ(result[1], -4);
    EXPECT_EQ(result[2], 0);
  }
  EXPECT_THROW(run_of("int8", 128, 1, 3), Error) << "no level but 0 is left";
  EXPECT_NO_THROW(run_of("int8:bits=16", 128, 1, 3));
}

// Exact, so the order of ranks does not matter: here those of other ranks are exchanged. (What a
// rank rounds at random depends on its number, so the gradients are levels already.)
TEST(Int8, DoesNotDependOnTheOrderOfRanks) {
  test::Gradients gradients = test::gradients_of(4, kElements, 1);
  for (auto& gradient : gradients) {
    for (float& value : gradient) value = std::round(std::clamp(value * 10, -31.0f, 31.0f));
    for (std::size_t i = 0; i < kElements; i += 512) gradient[i] = 31;
  }
  const auto result = run_of("int8", 4, 10, 70).step(gradients, 1).means.front();
  std::swap(gradients[0], gradients[3]);
  std::swap(gradients[1], gradients[2]);
  EXPECT_EQ(run_of("int8", 4, 10, 70).step(gradients, 1).means.front(), result);
  const auto mean = mean_of(gradients);
  for (std::size_t i = 0; i < kElements; ++i)
    ASSERT_FLOAT_EQ(result[i], static_cast<float>(mean[i]));
}

TEST(Int8, HasTheErrorThatTheSpecificationBounds) {
  for (const int ranks : {1, 4}) {
    const auto gradients = test::gradients_of(ranks, 512, 2);
    const auto mean = mean_of(gradients);
    AveragingRun run = run_of("int8", ranks, 1, 512);
    float largest = 0;
    for (const auto& gradient : gradients)
      for (const float value : gradient) largest = std::max(largest, std::abs(value));
    double squares = 0;
    constexpr int kDraws = 50;
    for (std::uint32_t step = 0; step < kDraws; ++step) {
      const auto result = run.step(gradients, step).means.front();
      for (std::size_t i = 0; i < 512; ++i) squares += std::pow(result[i] - mean[i], 2) / kDraws;
    }
    const int top = 127 / ranks;
    EXPECT_LE(squares, 512.0 * largest * largest / (4.0 * top * top * ranks));
  }
}

TEST(Int8, WithFeedbackLosesNoMoreThanRounding) {
  AveragingRun run = run_of("int8:feedback=on", 4, 17, 59);
  EXPECT_LT(lost_over(40, run, 4, 1003, test::mean_state(4)), 1e-5);
}

}  // namespace
}  // namespace paceline::compress::int8_claims
