#include "paceline/core/compress/kernels/quantise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/support/every_target.h"
#include "tests/support/extremes.h"
#include "tests/support/gradients.h"

namespace paceline::compress {
namespace {

using test::gradient;

std::vector<float> norms_of(const std::vector<float>& values, std::size_t length, Norm norm) {
  std::vector<float> norms(buckets_of(values.size(), length));
  EXPECT_TRUE(bucket_norms(values, length, norm, norms));
  return norms;
}

template <typename Level>
std::vector<Level> levels_of(const std::vector<float>& values, const Scale& scale,
                             const RandomStream& stream) {
  std::vector<Level> levels(values.size());
  quantise(values, 0, scale, stream, std::span(levels));
  return levels;
}

// The definition: a level is the floor, or one more where the random number in [0, 1)
// is below the fraction; all of it in f64 but for the quotient.
int model_level(float value, std::uint32_t word, float step, int top) {
  const double scaled = step > 0 ? std::abs(value) / step : 0.0f;
  const double down = std::floor(scaled);
  const double level = std::min<double>(down + (word * 0x1p-32 < scaled - down), top);
  return static_cast<int>(value < 0 ? -level : level);
}

TEST(Quantise, IsTheModelAtTheVeryLimitsOfRounding) {
  const RandomStream stream{.seed = 5, .tensor = 4, .step = 3, .rank = 2};
  constexpr std::size_t kElements = 60000;
  std::vector<std::uint32_t> words(kElements);
  random_words(stream, 0, words);
  std::vector<float> values(kElements);
  for (std::size_t i = 0; i < kElements; ++i) {
    // A fraction as near to the random number as floats are: below it, above it, and with few
    // enough digits it itself.
    float value =
        static_cast<float>(words[i] * 0x1p-32) + static_cast<float>(i % 5 == 0 ? i % 7 : 0);
    if (i % 3 == 1) value = std::nextafter(value, 0.0f);
    if (i % 3 == 2) value = std::nextafter(value, 200.0f);
    values[i] = i % 2 ? -value : value;
  }
  const std::vector<float> norms = {127};
  const Scale scale{norms, kElements, 127};
  test::for_each_target([&] {
    const auto levels = levels_of<std::int8_t>(values, scale, stream);
    for (std::size_t i = 0; i < kElements; ++i)
      ASSERT_EQ(levels[i], model_level(values[i], words[i], 1, 127)) << i << ": " << values[i];
  });
}

TEST(Quantise, OfAnyPartOfATensorIsThatPartOfTheWhole) {
  const auto values = gradient(3000, 1);
  const auto norms = norms_of(values, 77, Norm::max);
  const Scale scale{norms, 77, 300};
  const auto all = levels_of<std::int16_t>(values, scale, {.seed = 1});
  for (const std::size_t first : {0, 4, 76, 1024, 2996}) {
    for (std::size_t count = 0; first + count <= values.size(); count += 1 + count) {
      std::vector<std::int16_t> some(count);
      const auto part = std::span(values).subspan(first, count);
      quantise(part, first, scale, {.seed = 1}, some);
      ASSERT_TRUE(std::equal(some.begin(), some.end(), all.begin() + static_cast<long>(first)));
      std::vector<float> back(count), whole(values.size());
      dequantise(some, first, scale, back);
      dequantise(all, 0, scale, whole);
      ASSERT_TRUE(std::equal(back.begin(), back.end(), whole.begin() + static_cast<long>(first)));
    }
  }
}

struct Setting {
  const char* name;
  std::size_t length;
  Norm norm;
  int top;
  double omega;
};

// 4000 draws of 1000 values. Each mean may lie 5 standard deviations beside its value: that no one
// of 1000 does has a probability of 0.999.
TEST(Quantise, IsRightInTheMeanAndErrsNoMoreThanItMay) {
  const Setting settings[] = {
      {"4 bits, l2", 512, Norm::l2, 7, std::sqrt(512.0) / 7},
      {"8 bits, l2", 512, Norm::l2, 127, 512 / 4.0 / 127 / 127},
      {"8 bits, max", 512, Norm::max, 127, 512 / 4.0 / 127 / 127},
      {"2 bits, max", 1000, Norm::max, 1, std::sqrt(1000.0) - 1},
  };
  constexpr int kDraws = 4000;
  const auto values = gradient(1000, 2);
  for (const Setting& s : settings) {
    const auto norms = norms_of(values, s.length, s.norm);
    const Scale scale{norms, s.length, s.top};
    std::vector<double> sums(values.size());
    std::vector<float> back(values.size());
    double error = 0, worst = 0;
    for (int draw = 0; draw < kDraws; ++draw) {
      const auto levels = levels_of<std::int8_t>(
          values, scale, {.seed = 7, .step = static_cast<std::uint32_t>(draw)});
      dequantise(levels, 0, scale, back);
      for (std::size_t i = 0; i < back.size(); ++i) {
        const double beside = static_cast<double>(back[i]) - values[i];
        sums[i] += beside;
        error += beside * beside;
        worst = test::larger(worst, std::abs(beside) / scale.step(i / s.length));
      }
    }
    double furthest = 0;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const double deviation = scale.step(i / s.length) / 2 / std::sqrt(kDraws);
      furthest = test::larger(furthest, std::abs(sums[i]) / kDraws / deviation);
    }
    EXPECT_LT(furthest, 5) << s.name;
    EXPECT_LE(error / kDraws, s.omega * test::squares(values)) << s.name;
    EXPECT_LT(worst, 1.000001) << s.name;
  }
}

TEST(Quantise, NeverGoesBeyondTheHighestLevel) {
  std::vector<float> values(20000);
  std::vector<std::uint32_t> words(values.size());
  random_words({.seed = 3}, 0, words);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = 1 + static_cast<float>(words[i] >> 8) * 0x1p-24f;
  const auto norms = norms_of(values, 1, Norm::max);
  const Scale scale{norms, 1, 127};
  const auto levels = levels_of<std::int8_t>(values, scale, {.seed = 4});
  std::size_t beyond = 0;
  for (std::size_t i = 0; i < values.size(); ++i) beyond += values[i] / scale.step(i) > 127;
  EXPECT_GT(beyond, values.size() / 50) << "the case that this test is about";
  EXPECT_EQ(*std::ranges::max_element(levels), 127);
  EXPECT_GE(*std::ranges::min_element(levels), 126);
}

TEST(Quantise, OfABucketWithoutAStepIsZero) {
  std::vector<float> values(100, 0.0f);
  values[70] = -1e-44f;  // its step would be smaller than any float
  const auto norms = norms_of(values, 50, Norm::max);
  EXPECT_EQ(norms, (std::vector<float>{0, 1e-44f}));
  EXPECT_EQ(levels_of<std::int8_t>(values, {norms, 50, 127}, {}), std::vector<std::int8_t>(100));
}

TEST(Quantise, OfTheSmallestStepsIsTheModel) {
  const std::vector<float> values = {190e-45f, 100e-45f, -3e-45f, 0, 2e-45f};
  const auto norms = norms_of(values, 5, Norm::max);
  const Scale scale{norms, 5, 127};
  std::vector<std::uint32_t> words(5);
  random_words({.seed = 1}, 0, words);
  const auto levels = levels_of<std::int8_t>(values, scale, {.seed = 1});
  for (std::size_t i = 0; i < 5; ++i)
    EXPECT_EQ(levels[i], model_level(values[i], words[i], scale.step(0), 127));
}

TEST(BucketNorms, TellOfNormsThatAreNotFinite) {
  std::vector<float> norms(1);
  const std::vector<float> huge(4, 3e38f);
  EXPECT_TRUE(bucket_norms(huge, 4, Norm::max, norms));
  EXPECT_FALSE(bucket_norms(huge, 4, Norm::l2, norms));
  for (std::size_t i = 0; i < 100; ++i) {
    std::vector<float> values(100, 1);
    values[i] = i % 2 ? NAN : INFINITY;
    EXPECT_FALSE(bucket_norms(values, 100, Norm::max, norms));
    EXPECT_FALSE(bucket_norms(values, 100, Norm::l2, norms));
  }
}

// Three ranks share one scale.
struct Shared {
  std::vector<float> norms = std::vector<float>(16);
  std::vector<std::vector<float>> gradients;
  Scale scale;

  explicit Shared(int top) {
    for (std::uint64_t rank = 0; rank < 3; ++rank) {
      gradients.push_back(gradient(1003, rank + 1));
      const auto own = norms_of(gradients.back(), 64, Norm::max);
      for (std::size_t b = 0; b < norms.size(); ++b) norms[b] = std::max(norms[b], own[b]);
    }
    scale = {norms, 64, top};
  }
};

template <typename Level>
void expect_model(int ranks_of_scale, std::uint32_t levels, std::uint32_t own, std::uint32_t mean) {
  const Shared shared(top_of_sum<Level>(ranks_of_scale));
  std::vector<Level> sums(1003);
  std::vector<float> values(1003);
  std::uint32_t sum_of_levels = 0;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    const auto some = levels_of<Level>(shared.gradients[rank], shared.scale,
                                       {.seed = 7, .tensor = 77, .step = 5, .rank = rank});
    sum_of_levels = test::checksum(some, sum_of_levels);
    std::ranges::transform(sums, some, sums.begin(), std::plus<>());
    if (rank == 0) {
      dequantise(some, 0, shared.scale, values);
      EXPECT_EQ(test::checksum(values), own);
    }
  }
  EXPECT_EQ(sum_of_levels, levels);
  if (ranks_of_scale < 3) return;  // their sums do not fit
  mean_of_sums(sums, 0, shared.scale, 3, values);
  EXPECT_EQ(test::checksum(values), mean);
}

TEST(SharedScale, GivesTheModelsLevelsAndMeans) {
  expect_model<std::int8_t>(1, 0x84411e4e, 0x482b7d0c, 0);
  expect_model<std::int8_t>(4, 0xc4bc7a90, 0xdb54f2e1, 0x50b6f5e6);
  expect_model<std::int8_t>(127, 0x32b12b5c, 0x744fda58, 0x5700c85c);
  expect_model<std::int16_t>(3, 0x37547f1e, 0x8f90c862, 0x511f5eb8);
  expect_model<std::int16_t>(1000, 0xa96da82f, 0x2bf64eba, 0x0650a054);
}

// Whether a rank's share of the step is a float or not, of normal and of the smallest steps.
TEST(SharedScale, HasMeansThatAreRoundedOnceWhateverTheNumberOfRanks) {
  std::vector<std::int8_t> sums(256);
  std::iota(sums.begin(), sums.end(), std::int8_t{-128});
  std::vector<float> values(sums.size());
  test::for_each_target([&] {
    for (const int ranks : {1, 2, 3, 4, 6, 7, 8, 12, 64, 127}) {
      for (const float norm : {127.0f, 0.1f, 0x1.fffffep0f, 3e-39f, 1e-43f, 0.0f}) {
        const Scale scale{{&norm, 1}, 256, top_of_sum<std::int8_t>(ranks)};
        mean_of_sums(sums, 0, scale, ranks, values);
        for (std::size_t i = 0; i < sums.size(); ++i)
          ASSERT_EQ(values[i], static_cast<float>(sums[i] * double{scale.step(0)} / ranks))
              << ranks << " " << norm << " " << int{sums[i]};
      }
    }
  });
}

TEST(SharedScale, SumsOfAsManyRanksAsItIsForFit) {
  EXPECT_EQ(top_of_sum<std::int8_t>(127), 1);
  EXPECT_EQ(top_of_sum<std::int8_t>(128), 0) << "so many ranks do not fit";
  EXPECT_EQ(top_of_sum<std::int16_t>(32767), 1);
  for (const int ranks : {1, 2, 3, 8, 127}) {
    EXPECT_LE(top_of_sum<std::int8_t>(ranks) * ranks, 127);
    EXPECT_LE(top_of_sum<std::int16_t>(ranks) * ranks, 32767);
  }
}

// A rank with small values errs by more than they are, but the mean of all does not.
TEST(SharedScale, BoundsTheErrorOfTheMeanAlone) {
  constexpr int kRanks = 4, kDraws = 200, kElements = 512;
  const int top = top_of_sum<std::int8_t>(kRanks);
  std::vector<std::vector<float>> gradients;
  for (std::uint64_t rank = 0; rank < kRanks; ++rank) {
    gradients.push_back(gradient(kElements, rank));
    if (rank > 0)
      for (float& value : gradients.back()) value *= 0.001f;
  }
  const auto norms = norms_of(gradients[0], kElements, Norm::max);
  const Scale scale{norms, kElements, top};
  double of_small = 0, of_mean = 0;
  for (std::uint32_t draw = 0; draw < kDraws; ++draw) {
    std::vector<std::int8_t> sums(kElements);
    std::vector<float> mean(kElements), exact(kElements), own(kElements);
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      const auto levels =
          levels_of<std::int8_t>(gradients[rank], scale, {.seed = 1, .step = draw, .rank = rank});
      for (std::size_t i = 0; i < kElements; ++i) {
        sums[i] = static_cast<std::int8_t>(sums[i] + levels[i]);
        exact[i] += gradients[rank][i] / kRanks;
      }
      dequantise(levels, 0, scale, own);
      if (rank == 1) of_small += test::squared_distance(own, gradients[1]);
    }
    mean_of_sums(sums, 0, scale, kRanks, mean);
    of_mean += test::squared_distance(mean, exact);
  }
  EXPECT_GT(of_small / kDraws / test::squares(gradients[1]), kElements / 4.0 / top / top);
  EXPECT_LE(of_mean / kDraws, kElements * std::pow(norms[0] / top, 2) / 4 / kRanks);
}

}  // namespace
}  // namespace paceline::compress
