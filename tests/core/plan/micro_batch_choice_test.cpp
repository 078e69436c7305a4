#include "paceline/core/plan/micro_batch_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "paceline/core/base/base.h"
#include "paceline/core/base/seed.h"
#include "tests/support/seed.h"

namespace paceline::plan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

double step(const MicroBatchQuestion& question, int m) {
  return (m + question.idle) *
         (question.cost.start + question.cost.per_sample * question.batch / m);
}

MicroBatchQuestion random_question(SeededNumbers& numbers) {
  return {.batch = 8 + static_cast<int>(numbers.below(505)),
          .idle = static_cast<double>(numbers.below(16)),
          .cost = {std::pow(10, -4 + 2 * numbers.unit()), std::pow(10, -5 + 2 * numbers.unit())}};
}

// The least seconds over the numbers that are allowed, one after the other; infinite: there is
// none.
double least_step(const MicroBatchQuestion& question) {
  double least = std::numeric_limits<double>::infinity();
  for (int m = 1; m <= question.batch; ++m)
    if (question.batch % m == 0 && m % question.multiple_of == 0 &&
        question.batch / m >= question.least_samples && (!question.fits || question.fits(m)))
      least = std::min(least, step(question, m));
  return least;
}

TEST(MicroBatchChoice, OfEightStagesAnd256SamplesIsThePublishedOne) {
  const MicroBatchQuestion question{.batch = 256, .idle = 7, .cost = {1e-3, 2e-4}};
  int best = 1;
  for (int m = 1; m <= 256; ++m)
    if (step(question, m) < step(question, best)) best = m;
  EXPECT_EQ(best, 19);
  const MicroBatchChoice choice = best_micro_batches(question).value();
  EXPECT_NEAR(choice.ideal, 18.93, .005);
  EXPECT_EQ(choice.micro_batches, 16);
  EXPECT_DOUBLE_EQ(choice.seconds, step(question, 16));
  EXPECT_THAT(choice.why, AllOf(HasSubstr("16 of 16 samples"), HasSubstr("m* = 18.93"),
                                HasSubstr("16 takes 96.6 ms"), HasSubstr("32 takes 101 ms")));
}

TEST(MicroBatchChoice, IsANeighbourOfTheIdealNumberAmongTheDivisors) {
  SeededNumbers numbers(test::seed(44));
  for (int round = 0; round < 500; ++round) {
    const MicroBatchQuestion question = random_question(numbers);
    const MicroBatchChoice choice = best_micro_batches(question).value();
    const int m = choice.micro_batches;
    const int first = std::min<int>(m, static_cast<int>(std::ceil(choice.ideal)));
    const int last = std::max<int>(m, static_cast<int>(std::floor(choice.ideal)));
    for (int between = first; between <= last; ++between)
      EXPECT_TRUE(between == m || question.batch % between != 0) << choice.why;
  }
}

TEST(MicroBatchChoice, FollowsAForecastThatKnowsMoreThanTheFormula) {
  MicroBatchQuestion question{.batch = 64, .idle = 3, .cost = {1e-3, 1e-3}};
  question.step_seconds = [](int m) { return 1 + std::abs(m - 32) * 1e-3; };
  const MicroBatchChoice choice = best_micro_batches(question).value();
  EXPECT_EQ(choice.micro_batches, 32);
  EXPECT_DOUBLE_EQ(choice.seconds, 1);
  EXPECT_NEAR(choice.ideal, std::sqrt(3 * 64), 1e-9);
  question.step_seconds = [](int) { return 1.0; };
  EXPECT_EQ(best_micro_batches(question).value().micro_batches, 1) << "the smallest of several";
}

TEST(MicroBatchChoice, IsTheBestDivisorOfTheBatch) {
  SeededNumbers numbers(test::seed(37));
  for (int round = 0; round < 500; ++round) {
    const MicroBatchQuestion question = random_question(numbers);
    const MicroBatchChoice choice = best_micro_batches(question).value();
    EXPECT_EQ(question.batch % choice.micro_batches, 0);
    EXPECT_DOUBLE_EQ(choice.seconds, least_step(question)) << choice.why;
  }
}

TEST(MicroBatchChoice, IsTheBestOfThoseThatMemoryStagesAndKernelsAllow) {
  SeededNumbers numbers(test::seed(38));
  int refused = 0;
  for (int round = 0; round < 500; ++round) {
    MicroBatchQuestion question = random_question(numbers);
    const int least = static_cast<int>(numbers.below(40)),
              most = static_cast<int>(numbers.below(600));
    question.fits = [=](int m) { return m >= least && m <= most; };
    question.multiple_of = 1 + static_cast<int>(numbers.below(4));
    question.least_samples = 1 + static_cast<int>(numbers.below(4));
    const auto choice = best_micro_batches(question);
    const double want = least_step(question);
    ASSERT_EQ(choice.has_value(), std::isfinite(want));
    if (choice) {
      EXPECT_DOUBLE_EQ(choice.value().seconds, want);
    } else {
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_LT(refused, 500);
}

TEST(MicroBatchChoice, IsOneWithoutAPipelineAndGrowsAsTheRootOfTheBatch) {
  MicroBatchQuestion question{.batch = 64, .idle = 0, .cost = {1e-3, 2e-4}};
  EXPECT_EQ(best_micro_batches(question).value().micro_batches, 1);
  question.idle = 3;
  const double ideal = best_micro_batches(question).value().ideal;
  question.batch *= 4;
  EXPECT_DOUBLE_EQ(best_micro_batches(question).value().ideal, 2 * ideal);
}

TEST(MicroBatchChoice, OfMicroBatchesThatStartAtOnceIsASampleEach) {
  const MicroBatchQuestion question{.batch = 48, .idle = 3, .cost = {0, 1e-3}};
  EXPECT_EQ(best_micro_batches(question).value().micro_batches, 48);
}

TEST(MicroBatchChoice, WhatNoDivisorMeetsIsNamed) {
  MicroBatchQuestion question{.batch = 10, .idle = 3, .cost = {1e-3, 1e-3}, .multiple_of = 4};
  EXPECT_THAT(best_micro_batches(question).error().what,
              AllOf(HasSubstr("batch of 10"), HasSubstr("multiple of 4")));
  question.multiple_of = 1;
  question.fits = [](int) { return false; };
  EXPECT_THAT(best_micro_batches(question).error().what,
              AllOf(HasSubstr("batch of 10"), HasSubstr("--memory-limit")));
}

// Steps whose times have one valley, which the formula need not know.
TEST(QuickestMicroBatches, FindsTheValleyFromAnyNumberAndMeasuresEachOnce) {
  SeededNumbers numbers(test::seed(43));
  for (int round = 0; round < 300; ++round) {
    MicroBatchQuestion question{.batch = 1 + static_cast<int>(numbers.below(512)),
                                .multiple_of = 1 + static_cast<int>(numbers.below(2))};
    std::vector<int> allowed;
    for (const int m : divisors_of(question.batch))
      if (m % question.multiple_of == 0) allowed.push_back(m);
    if (allowed.empty()) continue;
    const double bottom = 9 * numbers.unit(), slope = .01 + numbers.unit();
    std::vector<int> asked;
    const auto seconds = [&](int m) { return 1 + slope * std::abs(std::log2(m) - bottom); };
    const std::vector<int> first = {allowed[numbers.below(allowed.size())], question.batch + 1};
    const MicroBatchSearch found = quickest_micro_batches(question, first, [&](int m) {
      asked.push_back(m);
      return seconds(m);
    });
    const int best = *std::ranges::min_element(allowed, {}, seconds);
    EXPECT_LE(found.micro_batches, best);
    EXPECT_LE(seconds(found.micro_batches) * (1 - kWorthMore), seconds(best) * (1 + 1e-12));
    std::ranges::sort(asked);
    EXPECT_TRUE(std::ranges::adjacent_find(asked) == asked.end());
    std::vector<int> told;
    for (const MeasuredStep& one : found.measured) told.push_back(one.micro_batches);
    EXPECT_EQ(told, asked);
  }
}

// The cnn of the examples: a micro-batch of its convolutions has hardly a start, by which 128 of
// one sample were the best.
TEST(QuickestMicroBatches, GoesOnFromAFormulaThatIsFarOff) {
  const auto seconds = [](int m) { return m == 1 ? 40.2 : 36.5 + m / 8.; };
  const MicroBatchQuestion question{.batch = 128};
  EXPECT_EQ(quickest_micro_batches(question, std::vector{128}, seconds).micro_batches, 2);
  EXPECT_EQ(quickest_micro_batches(question, std::vector{1}, seconds).micro_batches, 2);
  EXPECT_THROW(quickest_micro_batches(question, std::vector{3}, seconds), Error);
}

TEST(Divisors, AreAllInRisingOrder) {
  for (int n = 1; n <= 400; ++n) {
    std::vector<int> all;
    for (int m = 1; m <= n; ++m)
      if (n % m == 0) all.push_back(m);
    EXPECT_EQ(divisors_of(n), all);
  }
}

TEST(FittedBatchCost, FindsTheLineOfExactTimesAndIsNearThatOfNoisyOnes) {
  SeededNumbers numbers(test::seed(39));
  for (int round = 0; round < 100; ++round) {
    const BatchCost line{1e-3 * (1 + numbers.unit()), 1e-4 * (1 + numbers.unit())};
    std::vector<TimedBatch> exact, noisy;
    for (const double samples : {4, 8, 16, 32, 64}) {
      exact.push_back({samples, line(samples)});
      noisy.push_back({samples, line(samples) * (.99 + .02 * numbers.unit())});
    }
    const BatchCost found = fitted_batch_cost(exact).value(),
                    near = fitted_batch_cost(noisy).value();
    EXPECT_NEAR(found.start, line.start, 1e-12);
    EXPECT_NEAR(found.per_sample, line.per_sample, 1e-13);
    EXPECT_NEAR(near.per_sample, line.per_sample, .05 * line.per_sample);
    // No other line is closer.
    const auto distance = [&](const BatchCost& cost) {
      double sum = 0;
      for (const TimedBatch& time : noisy)
        sum += (cost(time.samples) - time.seconds) * (cost(time.samples) - time.seconds);
      return sum;
    };
    for (const double start : {-1e-6, 0., 1e-6})
      for (const double slope : {-1e-7, 0., 1e-7})
        EXPECT_LE(distance(near), distance({near.start + start, near.per_sample + slope}) + 1e-18);
  }
}

TEST(FittedBatchCost, NeverStartsBelowZeroOrFalls) {
  const std::vector<TimedBatch> steep = {{1, .9}, {2, 2}, {3, 3.1}, {4, 4.2}};
  EXPECT_EQ(fitted_batch_cost(steep).value().start, 0);
  EXPECT_NEAR(fitted_batch_cost(steep).value().per_sample, 1.0333, 1e-4);
  const std::vector<TimedBatch> falling = {{1, 4}, {2, 3}, {3, 2}, {4, 1}};
  EXPECT_EQ(fitted_batch_cost(falling).value().per_sample, 0);
  EXPECT_EQ(fitted_batch_cost(falling).value().start, 2.5);
}

TEST(FittedBatchCost, OfFewerThanFourSizesIsRefused) {
  const std::vector<TimedBatch> few = {{1, 1}, {2, 2}, {4, 4}, {4, 4.1}};
  EXPECT_THAT(fitted_batch_cost(few).error().what,
              AllOf(HasSubstr("3 different"), HasSubstr("4 sizes or more")));
}

}  // namespace
}  // namespace paceline::plan
