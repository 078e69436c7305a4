#include "paceline/core/pipeline/run/rank_progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "paceline/core/base/seed.h"
#include "paceline/core/pipeline/check/check_order.h"
#include "tests/core/pipeline/orders.h"
#include "tests/support/seed.h"

namespace paceline::pipeline {
namespace {

constexpr Placement kThree{.ranks = 3, .stages = 3};

// A network of RankProgress whose messages arrive in random order; a message arrives only after its
// receive was posted.
class RandomNetwork {
 public:
  RandomNetwork(const Order& order, std::uint64_t seed) : order_(order), numbers_(seed) {
    const auto peaks = peak_live(order);
    for (std::size_t rank = 0; rank < peaks.size(); ++rank) {
      ranks_.push_back(RankProgress(order.placement(), std::max(1, peaks[rank])));
      ranks_.back().append(order.ranks[rank]);
    }
  }

  // Returns whether all ranks end.
  bool run() {
    const auto ends = [](const RankProgress& rank) { return rank.is_done(); };
    for (int idle = 0; idle < 100'000 && !std::ranges::all_of(ranks_, ends);) {
      const auto at = static_cast<std::size_t>(numbers_.below(ranks_.size()));
      if (numbers_.below(2) == 0 ? deliver() : compute(at)) idle = 0;
      else ++idle;
    }
    return std::ranges::all_of(ranks_, ends);
  }
  std::vector<std::vector<Operation>> computed{8};  // by rank

 private:
  using Key = std::pair<std::size_t, Transfer>;  // receiver and message, with its sender as peer

  bool deliver() {
    std::vector<Key> ready;
    std::ranges::set_intersection(posted_, sent_, std::back_inserter(ready));
    if (ready.empty()) return false;
    const Key key = ready[numbers_.below(ready.size())];
    posted_.erase(key);
    sent_.erase(key);
    ranks_[key.first].arrived(key.second);
    return true;
  }
  bool compute(std::size_t rank) {
    RankProgress& progress = ranks_[rank];
    while (const auto receive = progress.next_receive()) posted_.emplace(rank, *receive);
    if (progress.is_done() || progress.awaited()) return false;
    const Operation operation = progress.begin();
    computed[rank].push_back(operation);
    if (auto out = transfer_after(order_.placement(), operation)) {
      const auto to = static_cast<std::size_t>(out->peer);
      out->peer = static_cast<int>(rank);
      sent_.emplace(to, *out);
    }
    return true;
  }

  const Order& order_;
  SeededNumbers numbers_;
  std::vector<RankProgress> ranks_;
  std::set<Key> posted_, sent_;
};

TEST(RankProgress, EveryOrderEndsHoweverMessagesOvertakeEachOther) {
  std::uint64_t seed = test::seed(4120);
  for (const auto& one : testing::order_cases(4, 8)) {
    RandomNetwork network(one.order, ++seed);
    EXPECT_TRUE(network.run()) << one.text();
    for (std::size_t rank = 0; rank < one.order.ranks.size(); ++rank)
      EXPECT_EQ(network.computed[rank], one.order.ranks[rank]) << one.text();
  }
}

TEST(RankProgress, ReceivesAreGivenInTheOrderOfNeedUpToTheLimitBesideTheNext) {
  RankProgress progress(kThree, 2);
  const Order order = testing::order_of("1f1b", 3, 4);
  progress.append(order.ranks[1]);
  const Transfer first{Kind::forward, 1, 0, 0};
  EXPECT_EQ(progress.next_receive(), first);
  EXPECT_EQ(progress.next_receive(), (Transfer{Kind::forward, 1, 1, 0}));
  EXPECT_EQ(progress.next_receive(), (Transfer{Kind::backward, 1, 0, 2}));
  EXPECT_EQ(progress.next_receive(), std::nullopt);
  EXPECT_EQ(progress.awaited(), first);
  progress.arrived(first);
  EXPECT_EQ(progress.awaited(), std::nullopt);
  EXPECT_EQ(progress.begin(), (Operation{Kind::forward, 1, 0}));
  EXPECT_EQ(progress.next_receive(), (Transfer{Kind::forward, 1, 2, 0}));
  EXPECT_EQ(progress.next_receive(), std::nullopt);
}

TEST(RankProgress, WhatRunsNextIsPostedHoweverManyAreExpected) {
  RankProgress progress(kThree, 1);
  progress.expect({Kind::backward, 1, 0});
  EXPECT_EQ(progress.next_receive()->kind, Kind::backward);
  progress.append(std::vector<Operation>{{Kind::forward, 1, 1}});
  EXPECT_EQ(progress.next_receive()->kind, Kind::forward);
  EXPECT_EQ(progress.next_receive(), std::nullopt);
}

TEST(RankProgress, WhatIsExpectedIsPostedOnceAndAfterTheList) {
  RankProgress progress(kThree, 8);
  const std::vector<Operation> list = {{Kind::forward, 1, 0}}, later = {{Kind::backward, 1, 0}};
  progress.append(list);
  progress.expect(later.front());
  EXPECT_EQ(progress.next_receive()->kind, Kind::forward);
  EXPECT_EQ(progress.next_receive()->kind, Kind::backward);
  progress.append(later);
  EXPECT_EQ(progress.next_receive(), std::nullopt);
}

TEST(RankProgress, BeforeItsMessageAnOperationIsRefused) {
  RankProgress progress(kThree, 8);
  progress.append(std::vector<Operation>{{Kind::forward, 1, 0}});
  EXPECT_THROW(progress.begin(), Error);
  EXPECT_THROW(progress.arrived({Kind::forward, 1, 0, 0}), Error);
}

TEST(RankProgress, WhatIsForgottenIsNotReceivedAnyMore) {
  const Placement placement{2, 2};
  for (const bool was_posted : {false, true}) {
    RankProgress progress(placement, 1);
    const Transfer unused = *transfer_before(placement, {Kind::forward, 1, 0});
    progress.expect(unused.operation());
    if (was_posted) {
      EXPECT_EQ(progress.next_receive(), unused);
    }
    progress.forget(unused);
    EXPECT_EQ(progress.next_receive(), std::nullopt);
    // Its turn may come again, after a drain.
    progress.append(std::vector{unused.operation()});
    EXPECT_EQ(progress.next_receive(), unused);
  }
}

}  // namespace
}  // namespace paceline::pipeline
