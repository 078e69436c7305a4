#include "paceline/core/collective/proof/symbols.h"

#include <gtest/gtest.h>

namespace paceline::collective {
namespace {

TEST(Symbols, TheSameTreeHasTheSameNumberAndAnotherTreeAnother) {
  Symbols symbols(3);
  const auto left = symbols.sum(symbols.leaf(0), symbols.leaf(1));
  EXPECT_EQ(left, symbols.sum(symbols.leaf(0), symbols.leaf(1)));
  EXPECT_NE(left, symbols.sum(symbols.leaf(1), symbols.leaf(0)));
  const auto right = symbols.sum(symbols.leaf(1), symbols.leaf(2));
  EXPECT_NE(symbols.sum(left, symbols.leaf(2)), symbols.sum(symbols.leaf(0), right));
}

TEST(Symbols, WritesTheTreeDown) {
  Symbols symbols(11);
  EXPECT_EQ(symbols.text(symbols.leaf(10)), "10");
  EXPECT_EQ(symbols.text(symbols.sum(symbols.sum(0, 1), 10)), "((0+1)+10)");
}

TEST(Symbols, KnowsTheFirstRankThatTwoSumsShareBeyond64RanksToo) {
  Symbols symbols(130);
  const auto low = symbols.sum(symbols.leaf(3), symbols.leaf(129));
  const auto high = symbols.sum(symbols.leaf(64), symbols.leaf(129));
  EXPECT_EQ(symbols.shared_rank(low, high), 129);
  EXPECT_EQ(symbols.shared_rank(low, symbols.leaf(64)), std::nullopt);
  EXPECT_EQ(symbols.shared_rank(high, symbols.leaf(64)), 64);
}

TEST(Symbols, AWholeSumHoldsEveryRank) {
  for (const int ranks : {1, 2, 3, 63, 64, 65, 128, 130}) {
    Symbols symbols(ranks);
    EXPECT_TRUE(symbols.is_whole(symbols.balanced())) << ranks;
    EXPECT_EQ(symbols.is_whole(symbols.leaf(ranks - 1)), ranks == 1);
  }
}

}  // namespace
}  // namespace paceline::collective
