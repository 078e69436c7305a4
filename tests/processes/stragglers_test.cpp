// The example's --pace, --slow and --corrupt: draws, texts and effects.
#include "tests/programs/fashion_mnist/stragglers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "tests/programs/fashion_mnist/corruption.h"
#include "tests/support/seed.h"

namespace paceline::test {
namespace {

TEST(Stragglers, AreDrawnAlikeByAllRanksAndEachRankAsOften) {
  for (const int ranks : {1, 3, 4}) {
    for (std::uint64_t trial = 0; trial < 5; ++trial) {
      constexpr int kSteps = 6000;
      std::vector<int> drawn(static_cast<std::size_t>(ranks));
      for (int step = 1; step <= kSteps; ++step) {
        const int rank = drawn_rank(seed(trial), step, ranks);
        EXPECT_EQ(rank, drawn_rank(seed(trial), step, ranks));
        ++drawn.at(static_cast<std::size_t>(rank));
      }
      const double mean = static_cast<double>(kSteps) / ranks;
      for (const int count : drawn)
        EXPECT_NEAR(count, mean, 6 * std::sqrt(mean)) << ranks << " ranks, trial " << trial;
    }
  }
}

TEST(Stragglers, FollowFromTheSeedAndTheStepAlone) {
  const auto drawn = [](std::uint64_t of) {
    std::vector<int> ranks;
    for (int step = 1; step <= 40; ++step) ranks.push_back(drawn_rank(of, step, 4));
    return ranks;
  };
  std::set<std::vector<int>> different;
  for (std::uint64_t of = 1; of <= 20; ++of) different.insert(drawn(of));
  EXPECT_EQ(different.size(), 20u);
}

TEST(Stragglers, AreReadFromTextsThatNameARankOrADraw) {
  EXPECT_EQ(rank_and_factor_in("2:5", kDrawnRank)->rank, 2);
  EXPECT_EQ(rank_and_factor_in("2:1.5", kDrawnRank)->factor, 1.5);
  EXPECT_EQ(rank_and_factor_in("drawn:5", kDrawnRank)->rank, kDrawnRank);
  for (const char* good : {"0:5", "drawn:1", "11:2.5"}) EXPECT_EQ(complaint_about_slow(good), "");
  for (const char* bad : {"", "5", "0:", ":5", "0:0.5", "0:nan", "0:inf", "-1:5", "drawn", "all:2",
                          "0:5x", "1.5:2", "0:5:5"})
    EXPECT_NE(complaint_about_slow(bad), "") << bad;
}

TEST(Corruption, MultipliesTheLossOfTheNamedRankAlone) {
  EXPECT_EQ(corruption_of("1:-10", 1), -10);
  EXPECT_EQ(corruption_of("1:-10", 0), 1);
  EXPECT_TRUE(std::isnan(corruption_of("0:nan", 0)));
  EXPECT_EQ(corruption_of("", 0), 1);
  for (const char* bad : {"drawn:2", "nan:0", "0:inf", "0"})
    EXPECT_NE(complaint_about_corruption(bad), "") << bad;
}

}  // namespace
}  // namespace paceline::test
