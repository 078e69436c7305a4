#include "paceline/core/topology/prices.h"

#include <gtest/gtest.h>

namespace paceline::topology {
namespace {

TEST(LinkPrices, TheLineThatHoldsIsThatOfTheLength) {
  const LinkPrices prices{{Line{1, 0}, Line{2, 0}, Line{3, 0}}};
  EXPECT_EQ(prices.line(0).alpha, 1);
  EXPECT_EQ(prices.line(16 << 10).alpha, 1);
  EXPECT_EQ(prices.line((16 << 10) + 1).alpha, 2);
  EXPECT_EQ(prices.line(1 << 20).alpha, 2);
  EXPECT_EQ(prices.line((1 << 20) + 1).alpha, 3);
}

TEST(LinkPrices, AStraightLinkIsOneLineForAllLengths) {
  const LinkPrices prices = LinkPrices::straight(5, 0.25);
  for (const double bytes : {0.0, 1.0, 16385.0, 1e7}) {
    EXPECT_DOUBLE_EQ(prices.line(bytes)(bytes), 5 + bytes / 4);
  }
}

}  // namespace
}  // namespace paceline::topology
