#include "paceline/core/compress/menu/offers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "tests/support/averaging_run.h"

namespace paceline::compress {
namespace {

Compression compression_of(std::string_view text) {
  return parse_compression(text, built_in_methods()).value();
}

const Part kPart{.rows = 64, .columns = 512};

std::vector<float> gradient() {
  return test::gradients_of(1, kPart.elements(), 21).front();
}

double squares(std::span<const float> values) {
  double sum = 0;
  for (const double v : values) sum += v * v;
  return sum;
}

TEST(TriedOffers, LoseOfTopKTheSquaresOfAllButTheLargest) {
  const auto values = gradient();
  auto sorted = values;
  std::ranges::sort(sorted, std::greater(), [](float v) { return std::abs(v); });
  const auto menu = tried_offers(compression_of("top_k:ratio=0.01/0.25/0.001"), kPart, values);
  ASSERT_EQ(menu.size(), 4u);
  for (const auto& [offer, ratio] : {std::pair{0, 0.01}, {1, 0.25}, {2, 0.001}}) {
    const auto k = static_cast<std::size_t>(std::ceil(ratio * 64 * 512 - 1e-6));
    const auto& found = menu[static_cast<std::size_t>(offer)];
    const double rest = squares(std::span(sorted).subspan(k));
    EXPECT_NEAR(found.error, rest, 1e-6 * rest);
    EXPECT_GE(found.bytes, 8.0 * static_cast<double>(k));
    EXPECT_LT(found.bytes, 8.0 * static_cast<double>(k) + 100) << "a header, no more";
  }
  EXPECT_EQ(menu.back().error, 0);
  EXPECT_EQ(menu.back().bytes, 4.0 * 64 * 512) << "whole";
}

TEST(TriedOffers, LoseNothingOfAMatrixOfThatRank) {
  std::vector<float> values(kPart.elements());
  for (std::size_t i = 0; i < 64; ++i) {
    for (std::size_t j = 0; j < 512; ++j)
      values[i * 512 + j] =
          static_cast<float>(std::sin(static_cast<double>(i)) * std::cos(static_cast<double>(j)));
  }
  const auto menu = tried_offers(compression_of("power_sgd:rank=1/4"), kPart, values);
  for (const int offer : {0, 1}) {
    EXPECT_LT(menu[static_cast<std::size_t>(offer)].error, 1e-8 * squares(values));
    EXPECT_EQ(menu[static_cast<std::size_t>(offer)].bytes, 4.0 * (64 + 512) * (offer == 0 ? 1 : 4));
  }
}

TEST(TriedOffers, OfLongerMessagesLoseLess) {
  const auto values = gradient();
  for (const std::string text :
       {"top_k:ratio=0.1/0.3", "random_k:ratio=0.1/0.3", "power_sgd:rank=2/16", "qsgd:bits=4/8",
        "int8:bucket=512/64", "top_k:indices=leader,ratio=0.1/0.3"}) {
    const auto menu = tried_offers(compression_of(text), kPart, values);
    ASSERT_EQ(menu.size(), 3u) << text;
    EXPECT_GT(menu[0].error, menu[1].error) << text;
    EXPECT_LT(menu[1].error, squares(values)) << text;
    EXPECT_LT(menu[0].bytes, menu[1].bytes) << text;
  }
}

TEST(TriedOffers, AreOneOfWhatIsNotCompressedAndInfinitelyBadOfWhatIsNotFinite) {
  const Part vector{.rows = 1, .columns = 100000};
  const auto whole = tried_offers(compression_of("top_k:ratio=0.01/0.1"), vector,
                                  std::vector<float>(vector.elements()));
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_EQ(whole.front().bytes, 400000);
  auto values = gradient();
  values[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(
      std::isinf(tried_offers(compression_of("top_k:ratio=0.01/0.1"), kPart, values)[0].error));
}

}  // namespace
}  // namespace paceline::compress
