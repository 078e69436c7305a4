#include "paceline/core/pipeline/check/check_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <set>

#include "paceline/core/base/seed.h"
#include "tests/core/pipeline/orders.h"
#include "tests/support/seed.h"

namespace paceline::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The obvious reference: how far each rank comes if operations run one at a time.
std::vector<std::size_t> reached_one_by_one(const Order& order) {
  std::vector<std::size_t> reached(order.ranks.size(), 0);
  std::set<Operation> ran;
  for (bool has_moved = true; has_moved;) {
    has_moved = false;
    for (std::size_t rank = 0; rank < reached.size() && !has_moved; ++rank) {
      if (reached[rank] == order.ranks[rank].size()) continue;
      const Operation& next = order.ranks[rank][reached[rank]];
      const auto inputs = inputs_of(next, order.stages);
      const bool is_here =
          next.stage % static_cast<int>(order.ranks.size()) == static_cast<int>(rank);
      if (!is_here || ran.contains(next)) continue;
      if (!std::ranges::all_of(inputs, [&](const Operation& i) { return ran.contains(i); }))
        continue;
      ran.insert(next);
      ++reached[rank];
      has_moved = true;
    }
  }
  return reached;
}

// Breaks an order that can run, in one of four ways.
void break_order(Order& order, SeededNumbers& numbers) {
  const auto pick = [&](std::size_t count) {
    return static_cast<std::size_t>(numbers.below(count));
  };
  auto& own = order.ranks[pick(order.ranks.size())];
  const std::size_t at = pick(own.size());
  switch (numbers.below(4)) {
    case 0: std::swap(own[at], own[pick(own.size())]); break;
    case 1: own.erase(own.begin() + static_cast<std::ptrdiff_t>(at)); break;
    case 2: own.insert(own.begin() + static_cast<std::ptrdiff_t>(pick(own.size())), own[at]); break;
    default: {
      const Operation moved = own[at];
      own.erase(own.begin() + static_cast<std::ptrdiff_t>(at));
      auto& other = order.ranks[pick(order.ranks.size())];
      other.insert(other.begin() + static_cast<std::ptrdiff_t>(pick(other.size() + 1)), moved);
    }
  }
}

TEST(CheckOrder, RandomlyBrokenOrdersAreRefusedWithTheFirstOperationThatCannotRun) {
  SeededNumbers numbers(test::seed(4103));
  const auto cases = testing::order_cases(5, 8);
  int refused = 0;
  while (refused < 2000) {
    Order order = cases[numbers.below(cases.size())].order;
    for (std::uint64_t i = 0; i <= numbers.below(3); ++i) {
      if (std::ranges::none_of(order.ranks, [](const auto& own) { return own.empty(); }))
        break_order(order, numbers);
    }
    const auto reached = reached_one_by_one(order);
    bool is_stuck = false;
    std::size_t ran = 0, all = static_cast<std::size_t>(order.stages * order.micro_batches) *
                               (order.split_backward ? 3u : 2u);
    for (std::size_t rank = 0; rank < reached.size(); ++rank) {
      is_stuck = is_stuck || reached[rank] < order.ranks[rank].size();
      ran += reached[rank];
    }
    const auto checked = check_order(order);
    ASSERT_EQ(checked.has_value(), !is_stuck && ran == all);
    if (checked) continue;
    ++refused;
    const auto blocked = first_blocked(order);
    ASSERT_EQ(blocked.has_value(), is_stuck) << checked.error().what;
    if (!blocked) {
      EXPECT_THAT(checked.error().what, HasSubstr("no rank computes the "));
      continue;
    }
    const auto rank = static_cast<std::size_t>(blocked->rank);
    EXPECT_EQ(blocked->position, reached[rank]);
    EXPECT_EQ(blocked->operation, order.ranks[rank][reached[rank]]);
    EXPECT_THAT(checked.error().what, HasSubstr(text_of(blocked->operation)));
    if (!blocked->waits_for) continue;
    EXPECT_THAT(checked.error().what, HasSubstr(text_of(*blocked->waits_for)));
    const auto inputs = inputs_of(blocked->operation, order.stages);
    EXPECT_NE(std::ranges::find(inputs, *blocked->waits_for), inputs.end());
    for (std::size_t other = 0; other < reached.size(); ++other) {
      const auto end = order.ranks[other].begin() + static_cast<std::ptrdiff_t>(reached[other]);
      EXPECT_EQ(std::find(order.ranks[other].begin(), end, *blocked->waits_for), end)
          << "it ran: " << checked.error().what;
    }
  }
}

TEST(CheckOrder, ABackwardBeforeItsForwardIsTheOneThatCannotRun) {
  Order order = testing::order_of("1f1b", 3, 4);
  std::swap(order.ranks[2][0], order.ranks[2][1]);
  EXPECT_EQ(first_blocked(order)->what,
            "rank 2 cannot run the backward of micro-batch 0 on stage 2 (number 0 of its list): it "
            "waits for the forward of micro-batch 0 on stage 2, which stands behind it");
}

TEST(CheckOrder, ForwardsInAnotherOrderAreMerelyLate) {
  Order order = testing::order_of("1f1b", 3, 4);
  std::swap(order.ranks[1][0], order.ranks[1][1]);
  EXPECT_TRUE(check_order(order).has_value());
}

TEST(CheckOrder, OfRanksThatWaitForEachOtherTheLowestIsNamed) {
  Order order = testing::order_of("1f1b", 2, 2);
  // Rank 0 wants micro-batch 0 back before it sends 1, and rank 1 wants 1 before it sends 0 back.
  order.ranks[0] = {
      {Kind::forward, 0, 0}, {Kind::backward, 0, 0}, {Kind::forward, 0, 1}, {Kind::backward, 0, 1}};
  order.ranks[1] = {
      {Kind::forward, 1, 0}, {Kind::forward, 1, 1}, {Kind::backward, 1, 0}, {Kind::backward, 1, 1}};
  EXPECT_THAT(first_blocked(order)->what,
              AllOf(HasSubstr("rank 0 cannot run the backward of micro-batch 0 on stage 0"),
                    HasSubstr("rank 1 computes only after the forward of micro-batch 1")));
}

TEST(CheckOrder, WhatIsMissingTwiceOrElsewhereIsNamed) {
  const Order good = testing::order_of("1f1b", 2, 2);
  Order missing = good, twice = good, elsewhere = good, split = good;
  missing.ranks[0].pop_back();
  EXPECT_EQ(check_order(missing).error().what,
            "no rank computes the backward of micro-batch 1 on stage 0");
  twice.ranks[1].push_back({Kind::forward, 1, 0});
  EXPECT_THAT(check_order(twice).error().what, HasSubstr("it has run already"));
  elsewhere.ranks[0].push_back({Kind::forward, 1, 0});
  EXPECT_THAT(check_order(elsewhere).error().what, HasSubstr("it belongs to rank 1"));
  split.ranks[0].push_back({Kind::weight, 0, 0});
  EXPECT_THAT(check_order(split).error().what, HasSubstr("backwards are not split"));
  EXPECT_THAT(check_order(Order{.ranks = {{}, {}}, .stages = 3}).error().what,
              HasSubstr("3 stages cannot be dealt evenly to 2 ranks"));
}

TEST(CheckOrder, WalksInAnOrderThatTheInputsAllow) {
  const Order order = testing::order_of("zero_bubble", 4, 6);
  std::set<Operation> ran;
  const Walk result = walk(order, [&](int, std::size_t, const Operation& operation) {
    for (const Operation& input : inputs_of(operation, order.stages))
      EXPECT_TRUE(ran.contains(input)) << text_of(operation);
    ran.insert(operation);
  });
  EXPECT_TRUE(result.is_complete);
  EXPECT_EQ(ran.size(), 4u * 6 * 3);
}

// Whether an order would end if each message held its sender up until the receiver comes to it.
bool ends_with_sends_that_wait(const Order& order) {
  struct Meeting {
    bool is_send;
    Operation needs;  // the operation that needs the message
  };
  const Placement placement = order.placement();
  const auto home = [&](const Operation& one) {
    return static_cast<std::size_t>(placement.rank_of(one.stage, one.micro_batch));
  };
  std::vector<std::deque<Meeting>> scripts(order.ranks.size());
  for (std::size_t rank = 0; rank < scripts.size(); ++rank) {
    for (const Operation& operation : order.ranks[rank]) {
      const auto before = predecessor_of(operation, order.stages);
      if (before && home(*before) != rank) scripts[rank].push_back({false, operation});
      const auto after = successor_of(operation, order.stages);
      if (after && home(*after) != rank) scripts[rank].push_back({true, *after});
    }
  }
  for (bool has_moved = true; has_moved;) {
    has_moved = false;
    for (auto& script : scripts) {
      if (script.empty() || !script.front().is_send) continue;
      auto& other = scripts[home(script.front().needs)];
      if (other.empty() || other.front().is_send || other.front().needs != script.front().needs)
        continue;
      script.pop_front();
      other.pop_front();
      has_moved = true;
    }
  }
  return std::ranges::all_of(scripts, [](const auto& script) { return script.empty(); });
}

TEST(CheckOrder, IfSendsHeldRanksUpGpipeWouldEndAndOneFOneBNot) {
  for (int ranks = 2; ranks <= 6; ++ranks) {
    for (int m = 1; m <= 10; ++m) {
      EXPECT_TRUE(ends_with_sends_that_wait(testing::order_of("sequential", ranks, m)));
      EXPECT_TRUE(ends_with_sends_that_wait(testing::order_of("gpipe", ranks, m)));
      EXPECT_EQ(ends_with_sends_that_wait(testing::order_of("1f1b", ranks, m)), m == 1);
      EXPECT_EQ(ends_with_sends_that_wait(testing::order_of("zero_bubble", ranks, m)), m == 1);
    }
  }
}

}  // namespace
}  // namespace paceline::pipeline
