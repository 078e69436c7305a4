// Also covers paceline/core/compress/averaging/momentum_selection_average.h.
#include <gtest/gtest.h>

#include <cmath>

#include "paceline/core/compress/averaging/momentum_selection_average.h"
#include "paceline/core/compress/methods/compression.h"
#include "tests/support/averaging_run.h"
#include "tests/support/extremes.h"

namespace paceline::compress::dgc_claims {
namespace {

using test::AveragingRun;
using test::mean_of;
using test::run_of;

constexpr std::size_t kElements = 60;

double largest_difference(const std::vector<float>& one, const std::vector<double>& other) {
  EXPECT_EQ(one.size(), other.size());
  if (one.size() != other.size()) return INFINITY;
  double largest = 0;
  for (std::size_t i = 0; i < one.size(); ++i)
    largest = test::larger(largest, std::abs(static_cast<double>(one[i]) - other[i]));
  return largest;
}

TEST(DeepGradientCompression, OfAllElementsWithoutMaskingIsMomentumSgd) {
  for (const bool nesterov : {false, true}) {
    AveragingRun run =
        run_of(nesterov ? "dgc:ratio=1,masking=off,nesterov=on" : "dgc:ratio=1,masking=off", 4, 1,
               kElements);
    std::vector<double> momentum(kElements), expected(kElements);
    for (std::uint32_t step = 0; step < 25; ++step) {
      const auto gradients = test::gradients_of(4, kElements, step);
      const auto mean = mean_of(gradients);
      for (std::size_t i = 0; i < kElements; ++i) {
        momentum[i] = 0.9 * momentum[i] + mean[i];
        expected[i] = nesterov ? mean[i] + 0.9 * momentum[i] : momentum[i];
      }
      ASSERT_LT(largest_difference(run.step(gradients, step).means.front(), expected), 1e-5);
    }
  }
}

TEST(DeepGradientCompression, OfAllElementsWithMaskingHasNoMomentumLeft) {
  for (const auto& [text, factor] : {std::pair{"dgc:ratio=1,warm_up_steps=0", 1.0},
                                     {"dgc:ratio=1,nesterov=on,warm_up_steps=0", 1.9}}) {
    AveragingRun run = run_of(text, 4, 1, kElements);
    for (std::uint32_t step = 0; step < 25; ++step) {
      const auto gradients = test::gradients_of(4, kElements, step);
      auto expected = mean_of(gradients);
      for (double& value : expected) value *= factor;
      ASSERT_LT(largest_difference(run.step(gradients, step).means.front(), expected), 1e-5);
    }
  }
}

TEST(DeepGradientCompression, WithoutMaskingSendsTheMomentumUpdatesInTheEnd) {
  AveragingRun run = run_of("dgc:ratio=0.1,masking=off,warm_up_steps=0", 4, 1, kElements);
  std::vector<double> momentum(kElements), owed(kElements);
  for (std::uint32_t step = 0; step < 25; ++step) {
    const auto gradients = test::gradients_of(4, kElements, step);
    const auto mean = mean_of(gradients);
    const auto sent = run.step(gradients, step).means.front();
    for (std::size_t i = 0; i < kElements; ++i) {
      momentum[i] = 0.9 * momentum[i] + mean[i];
      owed[i] += momentum[i] - static_cast<double>(sent[i]);
    }
  }
  const auto left = test::mean_state(4, "velocity")(run);
  for (std::size_t i = 0; i < kElements; ++i) EXPECT_NEAR(left[i], owed[i], 1e-4);
}

TEST(DeepGradientCompression, WithoutMomentumIsTopKWithErrorFeedback) {
  AveragingRun run = run_of("dgc:ratio=0.1,momentum=0,warm_up_steps=0", 3, 1, kElements);
  AveragingRun top_k = run_of("top_k:ratio=0.1", 3, 1, kElements);
  for (std::uint32_t step = 0; step < 25; ++step) {
    const auto gradients = test::gradients_of(3, kElements, step);
    ASSERT_EQ(run.step(gradients, step).means.front(), top_k.step(gradients, step).means.front());
  }
}

TEST(DeepGradientCompression, CutsEachRanksNormToItsShareOfTheLimit) {
  AveragingRun run = run_of("dgc:ratio=1,momentum=0,clip=1", 4, 1, kElements);
  const auto gradients = test::gradients_of(4, kElements, 1);
  std::vector<double> expected(kElements);
  for (const auto& gradient : gradients) {
    double squares = 0;
    for (const float value : gradient) squares += static_cast<double>(value) * value;
    const double factor = std::min(1.0, 0.5 / std::sqrt(squares));
    for (std::size_t i = 0; i < kElements; ++i) expected[i] += factor * gradient[i] / 4;
  }
  EXPECT_LT(largest_difference(run.step(gradients, 0).means.front(), expected), 1e-6);
}

TEST(DeepGradientCompression, WarmsUpOverTheRatiosOfThePaper) {
  const MomentumSelectionOptions options{.ratio = 0.001, .warm_up_steps = 400};
  const double paper[] = {0.25, 0.0625, 0.015625, 0.004};
  for (std::uint32_t stage = 0; stage < 4; ++stage) {
    EXPECT_NEAR(ratio_at(options, 100 * stage) / paper[stage], 1, 0.02);
    EXPECT_EQ(ratio_at(options, 100 * stage), ratio_at(options, 100 * stage + 99));
  }
  EXPECT_EQ(ratio_at(options, 400), 0.001);
}

TEST(DeepGradientCompression, WarmsUpUnlessItIsToldNotTo) {
  constexpr std::size_t kSent = 8 * 2 * 3;  // bytes for an element of each of 3 ranks
  AveragingRun run = run_of("dgc:ratio=0.001,selection=exact", 3, 1, 1000);
  AveragingRun at_once = run_of("dgc:ratio=0.001,selection=exact,warm_up_steps=0", 3, 1, 1000);
  const auto gradients = test::gradients_of(3, 1000, 1);
  for (const auto& [step, elements] :
       {std::pair{0u, 252u}, {250u, 64u}, {500u, 16u}, {750u, 4u}, {1000u, 1u}}) {
    run.step(gradients, step);
    EXPECT_EQ(run.payload_bytes, kSent * elements) << "step " << step;
    at_once.step(gradients, step);
    EXPECT_EQ(at_once.payload_bytes, kSent);
  }
}

TEST(DeepGradientCompression, SendsEightBytesForEachElement) {
  AveragingRun run = run_of("dgc:ratio=0.01,warm_up_steps=4,warm_up_stages=1", 3, 1, 1000);
  run.step(test::gradients_of(3, 1000, 1), 3);
  EXPECT_EQ(run.payload_bytes, 3 * 2 * 8 * 100u) << "the warm-up's one stage has a ratio of 0.1";
  run.step(test::gradients_of(3, 1000, 2), 4);
  EXPECT_EQ(run.payload_bytes, 3 * 2 * 8 * 10u);
}

TEST(DeepGradientCompression, WithASampledThresholdSendsAboutAsMuch) {
  AveragingRun run = run_of("dgc:ratio=0.001,warm_up_steps=0", 2, 100, 400);
  for (std::uint32_t step = 0; step < 4; ++step) {
    run.step(test::gradients_of(2, 40000, step), step);
    EXPECT_LE(run.payload_bytes, 2 * 8 * 40u);
    EXPECT_GE(run.payload_bytes, 2 * 8 * 32u);
  }
}

TEST(MomentumOfTheMean, IsWhatTensorsThatStayWholeGet) {
  const Catalogue methods = built_in_methods();
  const Method& dgc = *find(methods, "dgc");
  for (const char* text : {"dgc:ratio=1,masking=off", "dgc:ratio=1,masking=off,nesterov=on"}) {
    const Compression chosen = parse_compression(text, methods).value();
    AveragingRun run(2, [&](int rank) {
      return dgc.make_small({.columns = 20, .rank = rank, .ranks = 2}, chosen.settings);
    });
    AveragingRun selection = run_of(text, 2, 1, 20);
    for (std::uint32_t step = 0; step < 9; ++step) {
      const auto gradients = test::gradients_of(2, 20, step);
      const auto expected = selection.step(gradients, step).means.front();
      ASSERT_LT(largest_difference(run.step(gradients, step).means.front(),
                                   {expected.begin(), expected.end()}),
                1e-5);
    }
  }
}

}  // namespace
}  // namespace paceline::compress::dgc_claims
