#include "paceline/linear/solver/sample_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace paceline::linear {
namespace {

TEST(SampleOrderTest, APermutationHasEachSampleOnceAndDrawsMayRepeatThem) {
  const auto once = SampleOrder{}.of_pass(100, 3);
  EXPECT_EQ(std::set(once.begin(), once.end()).size(), 100u);
  const auto drawn = SampleOrder{.is_drawn = true}.of_pass(100, 3);
  EXPECT_EQ(drawn.size(), 100u);
  EXPECT_LT(std::set(drawn.begin(), drawn.end()).size(), 90u);
  EXPECT_LT(*std::ranges::max_element(drawn), 100u);
}

TEST(SampleOrderTest, PassesAndRanksDiffer) {
  for (const bool is_drawn : {false, true}) {
    const SampleOrder first{.is_drawn = is_drawn}, second{.is_drawn = is_drawn, .rank = 1};
    EXPECT_EQ(first.of_pass(50, 1), first.of_pass(50, 1));
    EXPECT_NE(first.of_pass(50, 1), first.of_pass(50, 2));
    EXPECT_NE(first.of_pass(50, 1), second.of_pass(50, 1));
    EXPECT_TRUE(first.of_pass(0, 0).empty());
  }
}

}  // namespace
}  // namespace paceline::linear
