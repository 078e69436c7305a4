#include "paceline/core/schedule/adapt/chosen_offers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "paceline/core/base/seed.h"
#include "paceline/core/schedule/policies/policies.h"
#include "paceline/core/schedule/simulation/simulate.h"
#include "tests/core/schedule/example_costs.h"
#include "tests/support/seed.h"

namespace paceline::schedule {
namespace {

using compress::Menu;

constexpr std::string_view kCodec = "coded";

// The shares of its bytes that a tensor sends by each offer; by the last one it travels whole.
constexpr std::array kRatios = {.1, .02, .4, 1.0};

CodecCost codec() {
  CodecCost cost{.name = std::string(kCodec), .ratio = kRatios[0]};
  for (const double ratio : kRatios) cost.offers.push_back({.ratio = ratio});
  return cost;
}

struct Choosing {
  Model model{.name = "random", .tensors = {}};
  Look look;
  Costs costs{.links = costs_of({.workers = 4, .servers = Servers::none}), .codecs = {{}, codec()}};
};

// Every third tensor is not compressed. More bytes, less error.
Choosing random_choosing(std::uint64_t seed) {
  SeededNumbers numbers(test::seed(seed));
  Choosing one;
  for (int i = 0; i < 8; ++i) {
    const std::size_t bytes = i % 3 == 2 ? 1000 : 100000 + numbers.below(4000000);
    one.model.tensors.push_back({.bytes = bytes, .backward = numbers.unit() * .01});
    Menu menu = {{static_cast<double>(bytes), 0}};
    if (i % 3 != 2) {
      const double loss = std::pow(numbers.unit(), 4), decay = 1 + 9 * numbers.unit();
      menu.clear();
      for (const double ratio : kRatios) {
        menu.push_back(
            {ratio * static_cast<double>(bytes), ratio == 1 ? 0 : loss * std::exp(-decay * ratio)});
      }
    }
    one.look.menus.push_back(menu);
    one.look.norms.push_back(1);
  }
  return one;
}

Model with(Model model, const Offers& offers) {
  for (std::size_t i = 0; i < offers.size(); ++i) model.tensors[i].offer = offers[i];
  return model;
}

double seconds(const Choosing& one, const Offers& offers) {
  const Model model = with(one.model, offers);
  return iteration_seconds(model, one.costs, encoded(wait_free(model), std::string(kCodec)));
}

double error_of(const Look& look, const Offers& offers) {
  double error = 0;
  for (std::size_t i = 0; i < offers.size(); ++i)
    error += look.menus[i][static_cast<std::size_t>(offers[i])].error;
  return error;
}

double bytes_of(const Look& look, const Offers& offers) {
  double bytes = 0;
  for (std::size_t i = 0; i < offers.size(); ++i)
    bytes += look.menus[i][static_cast<std::size_t>(offers[i])].bytes;
  return bytes;
}

Offers fastest(const Choosing& one, const Allowance& allowed, const Offers& present) {
  return fastest_offers(allowed, present, one.model, one.costs.links, one.costs.codec(kCodec),
                        [&](const Offers& offers) { return seconds(one, offers); });
}

const std::vector<double> kCalm(8, 1.0);
const Offers kFirst(8, 0);

TEST(ChosenOffers, AreNoSlowerThanTheFirstOffersAndLoseNoMoreThanThey) {
  int faster = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const Choosing one = random_choosing(seed);
    const Allowance allowed = allowance(one.look, kCalm);
    const Offers found = fastest(one, allowed, kFirst);
    EXPECT_LE(seconds(one, found), seconds(one, kFirst) / .98);
    EXPECT_LE(error_of(one.look, found), error_of(one.look, kFirst) * 1.01) << "8 bins of 2000";
    faster += seconds(one, found) < .9 * seconds(one, kFirst);
    const Offers fewest = fewest_bytes_offers(allowed, kFirst);
    EXPECT_LE(bytes_of(one.look, fewest), bytes_of(one.look, kFirst));
    EXPECT_LE(error_of(one.look, fewest), error_of(one.look, kFirst) * 1.01);
  }
  EXPECT_GE(faster, 10);
}

// One that is ready long before the link is needed for anything else.
TEST(ChosenOffers, CompressNothingThatIsHidden) {
  Choosing one = random_choosing(3);
  one.model.tensors.back() = {.bytes = 1000000, .backward = 0};
  one.model.tensors[6] = {.bytes = 1000000, .backward = 10};
  for (const std::size_t i : {std::size_t{6}, one.look.menus.size() - 1}) {
    one.look.menus[i] = {{1e5, .5}, {2e4, .9}, {4e5, .1}, {1e6, 0}};
  }
  Offers lossy;
  for (const Menu& menu : one.look.menus) lossy.push_back(menu.size() > 1 ? 1 : 0);
  const Offers found = fastest(one, allowance(one.look, kCalm), lossy);
  EXPECT_EQ(found.back(), 3) << "whole, while 10 s pass until the next is ready";
}

TEST(ChosenOffers, CompressLeastWhatIsCriticalAndLetTheOthersLoseWhatTheyMay) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const Choosing one = random_choosing(seed);
    std::vector<double> before = kCalm;
    before[0] = 0;    // nothing was known
    before[1] = 10;   // fell to a tenth
    before[4] = 0.5;  // doubled
    const Allowance allowed = allowance(one.look, before);
    for (const Offers& found :
         {fewest_bytes_offers(allowed, kFirst), fastest(one, allowed, kFirst)}) {
      for (const std::size_t i : {0u, 1u, 4u}) EXPECT_EQ(found[i], 2);
      double others = 0, may = 0;
      for (const std::size_t i : {3u, 6u, 7u}) {
        others += one.look.menus[i][static_cast<std::size_t>(found[i])].error;
        may += one.look.menus[i].front().error;
      }
      EXPECT_LE(others, may * 1.01);
    }
  }
}

TEST(ChosenOffers, StayWhereNothingIsGainedByAFiftieth) {
  const Menu menu = {{100, 1}, {99, 1}, {400, 0}};
  const Look look{.menus = {menu, menu}, .norms = {1, 1}};
  const Allowance allowed = allowance(look, look.norms);
  EXPECT_EQ(fewest_bytes_offers(allowed, {0, 0}), (Offers{0, 0}));
  EXPECT_EQ(fewest_bytes_offers(allowed, {0, 2}), (Offers{1, 1}));
  const Allowance other = allowance(look, std::vector<double>{0, 1});
  EXPECT_EQ(fewest_bytes_offers(other, {1, 1}), (Offers{0, 1}))
      << "the first has to be compressed least: then all is chosen anew";
}

TEST(ChosenOffers, OfALookThatOverflowedAreNone) {
  Look look{.menus = {{{100, 1}, {400, 0}}}, .norms = {1}};
  EXPECT_TRUE(look.is_finite());
  look.menus[0][0].error = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(look.is_finite());
  look.menus[0][0].error = 1;
  look.norms[0] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(look.is_finite());
}

}  // namespace
}  // namespace paceline::schedule
