#include "paceline/torch/shard/use_order.h"

#include <gtest/gtest.h>

namespace paceline::shard {
namespace {

void take_down(UseOrder& order, const std::vector<std::size_t>& units) {
  for (const std::size_t unit : units) (void)order.add(unit);
  order.end_step();
}

TEST(UseOrder, ExpectsWhatTheLastStepDid) {
  UseOrder order;
  EXPECT_FALSE(order.is_known());
  EXPECT_TRUE(order.add(4));
  EXPECT_EQ(order.expected(), std::nullopt);
  EXPECT_TRUE(order.add(2));
  order.end_step();
  EXPECT_TRUE(order.is_known() && order.is_steady());
  EXPECT_EQ(order.expected(), 4u);
  EXPECT_EQ(order.expected(1), 2u);
  EXPECT_EQ(order.expected(2), std::nullopt);
  EXPECT_TRUE(order.add(4));
  EXPECT_EQ(order.expected(), 2u);
}

TEST(UseOrder, IsSteadyAgainAfterTwoStepsOfOneOrder) {
  UseOrder order;
  take_down(order, {0, 1, 2});
  EXPECT_TRUE(order.add(0));
  EXPECT_FALSE(order.add(2)) << "the first use that differs";
  EXPECT_TRUE(order.has_changed());
  EXPECT_EQ(order.expected(), std::nullopt);
  EXPECT_TRUE(order.add(1)) << "and what follows it is no news";
  order.end_step();
  EXPECT_FALSE(order.is_steady());
  take_down(order, {0, 2, 1});
  EXPECT_TRUE(order.is_steady());
}

TEST(UseOrder, OneUseMoreAndOneLessAreAnotherOrder) {
  for (const std::vector<std::size_t>& now : {std::vector<std::size_t>{0, 1, 0}, {0}}) {
    UseOrder order;
    take_down(order, {0, 1});
    take_down(order, now);
    EXPECT_FALSE(order.is_steady());
  }
}

TEST(UseOrder, AStepWithoutUsesShowsNothing) {
  UseOrder order;
  take_down(order, {0, 1});
  order.end_step();
  EXPECT_TRUE(order.is_steady());
  EXPECT_EQ(order.expected(), 0u);
}

}  // namespace
}  // namespace paceline::shard
