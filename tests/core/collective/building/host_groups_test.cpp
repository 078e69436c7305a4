#include "paceline/core/collective/building/host_groups.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "paceline/core/base/result.h"

namespace paceline::collective {
namespace {

const Shape kMixed{.ranks = 6, .groups = {{5, 1}, {3}, {4, 0, 2}}};

TEST(Hosts, AreInRankOrder) {
  EXPECT_EQ(hosts_of(kMixed), (Hosts{{0, 2, 4}, {1, 5}, {3}}));
}

TEST(Hosts, AreOneWhereNothingIsKnown) {
  EXPECT_EQ(hosts_of({.ranks = 3}), (Hosts{{0, 1, 2}}));
}

TEST(Hosts, TellTheirForm) {
  EXPECT_FALSE(are_of_one_size(hosts_of(kMixed)));
  EXPECT_FALSE(hold_neighbours(hosts_of(kMixed)));
  EXPECT_TRUE(are_of_one_size({{0, 2}, {1, 3}}));
  EXPECT_FALSE(hold_neighbours({{0, 2}, {1, 3}}));
  EXPECT_FALSE(are_of_one_size({{0, 1}, {2}}));
  EXPECT_TRUE(hold_neighbours({{0, 1}, {2}}));
}

TEST(Hosts, ARankIsOnOneAndTheRootLeadsItsOwn) {
  const Hosts hosts = hosts_of(kMixed);
  EXPECT_EQ(host_of(hosts, 5), (std::vector<int>{1, 5}));
  EXPECT_THROW(host_of(hosts, 6), Error);
  EXPECT_EQ(leaders_of(hosts), (std::vector<int>{0, 1, 3}));
  EXPECT_EQ(leaders_of(hosts, 4), (std::vector<int>{4, 1, 3}));
}

TEST(Hosts, EveryChunkHasAKeeperOnEach) {
  const Hosts hosts{{0, 1, 2}, {3, 4}, {5}};
  EXPECT_EQ(keepers_of(hosts, 0), (std::vector<int>{0, 3, 5}));
  EXPECT_EQ(keepers_of(hosts, 2), (std::vector<int>{2, 3, 5}));
  EXPECT_EQ(keepers_of(hosts, 4), (std::vector<int>{1, 4, 5}));
  using Chunks = std::vector<std::vector<int>>;
  EXPECT_EQ(kept_on(hosts, hosts[1]), (Chunks{{0, 2, 3, 5}, {1, 4}}));
  for (const auto& host : hosts) {
    const auto kept = kept_on(hosts, host);
    for (std::size_t place = 0; place < host.size(); ++place) {
      for (const int chunk : kept[place])
        EXPECT_EQ(std::ranges::count(keepers_of(hosts, chunk), host[place]), 1);
    }
  }
}

TEST(Hosts, CostARoundAcrossAndOneWithinWhereThereIsSomebodyToTalkTo) {
  EXPECT_EQ(across_and_within({{0}}), (Counters{0, 0, 0}));
  EXPECT_EQ(across_and_within({{0, 1, 2}}), (Counters{1, 6, 0}));
  EXPECT_EQ(across_and_within({{0}, {1}, {2}}), (Counters{1, 6, 0}));
  EXPECT_EQ(across_and_within({{0, 1, 2}, {3, 4}, {5}}), (Counters{2, 12 + 8, 0}));
}

TEST(Hosts, SumByTheBalancedTreeWhereItsHalvesFallTogetherWithThem) {
  EXPECT_TRUE(sum_by_balanced_tree({{0, 1, 2}}));
  EXPECT_TRUE(sum_by_balanced_tree({{0, 1}, {2, 3}, {4}}));
  EXPECT_TRUE(sum_by_balanced_tree({{0, 1}, {2, 3}, {4, 5, 6, 7}}));
  EXPECT_FALSE(sum_by_balanced_tree({{0, 1, 2}, {3, 4, 5}}));
  EXPECT_FALSE(sum_by_balanced_tree({{0}, {1, 2}}));
  EXPECT_FALSE(sum_by_balanced_tree({{0, 2}, {1, 3}}));
}

TEST(Hosts, SomeRanksAloneAreNumberedAnew) {
  const std::vector<int> ranks{1, 5, 3};
  EXPECT_EQ(shape_among(ranks, 3, 5), (Shape{.ranks = 3, .rank = 2, .root = 1}));
  EXPECT_EQ(shape_among(ranks, 5), (Shape{.ranks = 3, .rank = 1, .root = 0}));
  EXPECT_THROW(shape_among(ranks, 2), Error);
}

}  // namespace
}  // namespace paceline::collective
