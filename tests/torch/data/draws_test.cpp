#include "paceline/torch/data/draws.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace paceline::data {
namespace {

std::vector<std::int64_t> draws(std::uint64_t first, std::size_t count, std::int64_t samples,
                                std::uint64_t seed, std::int64_t epoch) {
  std::vector<std::int64_t> all;
  for (std::uint64_t place = first; place < first + count; ++place)
    all.push_back(drawn_sample(place, samples, seed, epoch));
  return all;
}

using Drawn = std::vector<std::int64_t>;

TEST(Draws, AreThoseOfTheSpecificationsModel) {
  EXPECT_EQ(draws(0, 24, 97, 5, 2), (Drawn{73, 30, 13, 0,  68, 71, 65, 90, 11, 94, 45, 46,
                                           41, 50, 36, 44, 1,  63, 26, 82, 90, 69, 43, 22}));
  EXPECT_EQ(draws(0, 8, 60'000, 1, 0),
            (Drawn{53681, 52446, 33390, 2192, 39796, 17734, 7273, 28048}));
  EXPECT_EQ(draws(0, 4, 60'000, 1, 3), (Drawn{11079, 4490, 12924, 7587}));
  EXPECT_EQ(draws(std::uint64_t{1} << 32, 4, 1000, 3, 1), (Drawn{871, 777, 223, 219}));
  // The key is the seed's low 32 bits.
  EXPECT_EQ(draws(0, 4, 97, 5 + (std::uint64_t{7} << 32), 2), (Drawn{73, 30, 13, 0}));
}

TEST(Draws, AreMadeAgainWhereTheyWouldFavourSomeSamples) {
  const std::int64_t samples = (std::int64_t{1} << 62) + (std::int64_t{1} << 61);
  EXPECT_EQ(drawn_sample(8, samples, 1, 1), 1574305637774646673);
  EXPECT_EQ(drawn_sample(12, samples, 1, 1), 4631661918151655178);
  EXPECT_EQ(drawn_sample(15, samples, 1, 1), 672807206944296400);
}

TEST(Draws, AreUniformAndLeaveOutAThirdOfTheSamples) {
  std::vector<double> counts(1000);
  for (const std::int64_t one : draws(0, 20'000, 1000, 1, 0))
    ++counts[static_cast<std::size_t>(one)];
  double chi_squared = 0;
  for (const double count : counts) chi_squared += (count - 20) * (count - 20) / 20;
  EXPECT_LT(std::fabs(chi_squared - 999) / std::sqrt(2 * 999.0), 4);

  const auto all = draws(0, 4000, 4000, 3, 1);
  const double distinct = static_cast<double>(std::set(all.begin(), all.end()).size()) / 4000,
               expected = 1 - std::pow(1 - 1 / 4000.0, 4000);
  EXPECT_LT(std::fabs(distinct - expected), 4 * 0.3118 / std::sqrt(4000.0));
  EXPECT_EQ(draws(0, 3, 1, 0, 0), (Drawn{0, 0, 0}));
}

}  // namespace
}  // namespace paceline::data
