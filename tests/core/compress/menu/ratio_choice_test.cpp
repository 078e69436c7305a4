#include "paceline/core/compress/menu/ratio_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "paceline/core/base/seed.h"
#include "tests/support/averaging_run.h"
#include "tests/support/seed.h"

namespace paceline::compress {
namespace {

using Choice = std::vector<std::size_t>;

void for_each_choice(std::span<const Menu> menus, const std::function<void(const Choice&)>& visit) {
  Choice choice(menus.size(), 0);
  for (;;) {
    visit(choice);
    std::size_t at = 0;
    while (at < choice.size() && ++choice[at] == menus[at].size()) choice[at++] = 0;
    if (at == choice.size()) return;
  }
}

double sum(std::span<const Menu> menus, const Choice& choice, double Offer::*what) {
  double total = 0;
  for (std::size_t m = 0; m < menus.size(); ++m) total += menus[m][choice[m]].*what;
  return total;
}

bool fits(std::span<const Menu> menus, const Choice& choice, double most_error, double bins) {
  double used = 0;
  for (std::size_t m = 0; m < menus.size(); ++m) {
    const double error = menus[m][choice[m]].error;
    if (error != 0) used += std::floor(error * bins / most_error);
  }
  return used <= bins;
}

// Shorter offers have larger errors; the first is dense.
std::vector<Menu> random_menus(SeededNumbers& numbers, std::size_t tensors, std::size_t offers) {
  std::vector<Menu> menus(tensors);
  for (Menu& menu : menus) {
    std::vector<double> bytes, errors;
    for (std::size_t i = 0; i < offers; ++i) {
      bytes.push_back(static_cast<double>(1 + numbers.below(999)));
      errors.push_back(i == 0 ? 0 : std::pow(numbers.unit(), 3));
    }
    std::ranges::sort(bytes, std::greater());
    std::ranges::sort(errors);
    for (std::size_t i = 0; i < offers; ++i) menu.push_back({bytes[i], errors[i]});
  }
  return menus;
}

std::vector<double> random_ready(SeededNumbers& numbers, int tensors) {
  std::vector<double> ready;
  for (int t = 0; t < tensors; ++t)
    ready.push_back((ready.empty() ? 0 : ready.back()) + 1e-3 * numbers.unit());
  return ready;
}

double end_of(std::span<const Menu> menus, const Choice& choice, std::span<const double> ready,
              const LinkSpeed& link) {
  double end = 0;
  for (std::size_t m = 0; m < menus.size(); ++m)
    end =
        std::max(end, ready[m]) + link.seconds + link.seconds_per_byte * menus[m][choice[m]].bytes;
  return end;
}

constexpr double kNone = std::numeric_limits<double>::infinity();

TEST(FewestBytes, AreThoseOfBruteForceAndNoMoreThanTheReferences) {
  SeededNumbers numbers(test::seed(9));
  constexpr std::size_t kBins = 500;
  for (int i = 0; i < 200; ++i) {
    const std::size_t tensors = 1 + numbers.below(5), offers = 2 + numbers.below(3);
    const auto menus = random_menus(numbers, tensors, offers);
    const Choice reference(tensors, numbers.below(offers));
    const double limit = sum(menus, reference, &Offer::error);
    const auto chosen = fewest_bytes(menus, limit, kBins);
    ASSERT_TRUE(chosen);
    double brute = kNone, brute_exact = kNone;
    for_each_choice(menus, [&](const Choice& choice) {
      const double bytes = sum(menus, choice, &Offer::bytes);
      if (fits(menus, choice, limit, kBins)) brute = std::min(brute, bytes);
      if (sum(menus, choice, &Offer::error) <= limit) brute_exact = std::min(brute_exact, bytes);
    });
    EXPECT_EQ(sum(menus, chosen->offers, &Offer::bytes), chosen->cost);
    ASSERT_EQ(chosen->cost, brute);
    EXPECT_LE(chosen->cost, brute_exact);
    EXPECT_LE(chosen->cost, sum(menus, reference, &Offer::bytes));
    EXPECT_LE(sum(menus, chosen->offers, &Offer::error),
              limit * (1 + static_cast<double>(tensors) / kBins) + 1e-12);
    double before = kNone;
    for (const double factor : {0.25, 0.5, 1.0, 2.0, 4.0}) {
      const double bytes = fewest_bytes(menus, limit * factor, kBins)->cost;
      EXPECT_LE(bytes, before) << "more error, yet more bytes";
      before = bytes;
    }
  }
}

TEST(FewestBytes, AreNoneWhereNothingMeetsTheLimit) {
  EXPECT_FALSE(fewest_bytes(std::vector<Menu>{{{1, 0.5}}}, 0.4));
  EXPECT_FALSE(fewest_bytes(std::vector<Menu>{{{1, 0.5}}}, 0));
  EXPECT_EQ(fewest_bytes(std::vector<Menu>{{{1, 0.5}, {9, 0}}}, 0)->offers, Choice{1});
  EXPECT_EQ(fewest_bytes({}, 1)->cost, 0);
}

TEST(EarliestEnd, IsThatOfBruteForce) {
  SeededNumbers numbers(test::seed(10));
  const LinkSpeed link{5e-5, 1e-6};
  int sooner = 0;
  for (int i = 0; i < 100; ++i) {
    const auto menus = random_menus(numbers, 5, 4);
    const auto ready = random_ready(numbers, 5);
    const double limit = sum(menus, Choice(5, 2), &Offer::error);
    double brute = kNone;
    for_each_choice(menus, [&](const Choice& choice) {
      if (fits(menus, choice, limit, 2000))
        brute = std::min(brute, end_of(menus, choice, ready, link));
    });
    const auto chosen = earliest_end(menus, ready, link, limit);
    ASSERT_TRUE(chosen);
    ASSERT_DOUBLE_EQ(chosen->cost, brute);
    EXPECT_DOUBLE_EQ(end_of(menus, chosen->offers, ready, link), brute);
    const auto bytes = fewest_bytes(menus, limit, 2000);
    sooner += brute < end_of(menus, bytes->offers, ready, link) - 1e-12 ? 1 : 0;
  }
  EXPECT_GT(sooner, 0) << "the fewest bytes are not always the earliest end";
}

TEST(EarliestEnd, RelaxedIsNoLaterAndLosesNoMoreAndNothingOfWhatIsHidden) {
  SeededNumbers numbers(test::seed(11));
  const LinkSpeed link{5e-5, 1e-6};
  int less = 0;
  for (int i = 0; i < 100; ++i) {
    const auto menus = random_menus(numbers, 5, 4);
    auto ready = random_ready(numbers, 5);
    ready.back() += 1;  // all others are hidden behind it
    const double limit = sum(menus, Choice(5, 2), &Offer::error);
    const auto earliest = earliest_end(menus, ready, link, limit);
    const auto found = relaxed(*earliest, menus, ready, link);
    EXPECT_NEAR(end_of(menus, found.offers, ready, link), earliest->cost, 1e-12);
    EXPECT_EQ(Choice(found.offers.begin(), found.offers.end() - 1), Choice(4, 0)) << "dense";
    ready.back() -= 1;
    const auto tight = earliest_end(menus, ready, link, limit);
    const auto eased = relaxed(*tight, menus, ready, link);
    EXPECT_LE(end_of(menus, eased.offers, ready, link), tight->cost + 1e-12);
    const double before = sum(menus, tight->offers, &Offer::error),
                 after = sum(menus, eased.offers, &Offer::error);
    EXPECT_LE(after, before);
    less += after < before;
  }
  EXPECT_GT(less, 10);
}

TEST(CriticalRegime, IsAFastChangeOfTheNorm) {
  EXPECT_TRUE(in_critical_regime(1, 0.4));
  EXPECT_FALSE(in_critical_regime(1, 0.6));
  EXPECT_TRUE(in_critical_regime(1, 1.5));
  EXPECT_TRUE(in_critical_regime(0, 0)) << "nothing is known yet";
}

Compression compression_of(std::string_view text) {
  return parse_compression(text, built_in_methods()).value();
}

const AveragedTensor kPart{.rows = 64, .columns = 512};

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
  const AveragedTensor vector{.rows = 1, .columns = 100000};
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
