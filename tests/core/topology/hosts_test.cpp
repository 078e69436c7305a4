#include "paceline/core/topology/hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::topology {
namespace {

using ::testing::ElementsAre;

TEST(Topology, EveryRankIsOnOneHost) {
  const Topology two = several_hosts({{0, 2, 4}, {1, 3}}, {2, 2});
  EXPECT_EQ(two.ranks(), 5);
  EXPECT_THAT(two.host_of_ranks(), ElementsAre(0, 1, 0, 1, 0));
  EXPECT_EQ(two.pool_of_ranks(), two.host_of_ranks());
  EXPECT_TRUE(two.pools[0].is_crowded());
  EXPECT_FALSE(two.pools[1].is_crowded());
  for (int ranks = 1; ranks < 9; ++ranks) {
    EXPECT_EQ(one_host(ranks, 2, LinkClass::loopback).ranks(), ranks);
    EXPECT_EQ(separate_hosts(ranks).ranks(), ranks);
    EXPECT_EQ(separate_hosts(ranks).hosts.size(), static_cast<std::size_t>(ranks));
  }
}

TEST(Topology, AGroupOfAllRanksInOrderIsTheWhole) {
  Topology whole = several_hosts({{0, 2}, {1, 3}}, {2, 8}, LinkClass::loopback);
  EXPECT_EQ(topology_of(whole, {0, 1, 2, 3}), whole);
  whole.pools = one_host(4, 2, LinkClass::memory).pools;
  EXPECT_EQ(topology_of(whole, {0, 1, 2, 3}), whole);
}

TEST(Topology, AGroupNumbersItsMembersAndTheHostsThatAreLeft) {
  const Topology whole = several_hosts({{0, 1}, {2, 3}, {4, 5}}, {2, 4, 8});
  const Topology part = topology_of(whole, {5, 1, 4});
  EXPECT_THAT(part.hosts, ElementsAre(ElementsAre(0, 2), ElementsAre(1)));
  EXPECT_THAT(part.pools, ElementsAre(ProcessorPool{{0, 2}, 8}, ProcessorPool{{1}, 2}));
}

TEST(Topology, RanksOfAGroupShareTheProcessorsThatTheyShareInTheWhole) {
  Topology whole = separate_hosts(4);  // namespaces of one machine, two of them on each core
  whole.pools = {{{0, 2}, 1}, {{1, 3}, 1}};
  const Topology crossed = topology_of(whole, {3, 0, 2});
  EXPECT_THAT(crossed.pools, ElementsAre(ProcessorPool{{0}, 1}, ProcessorPool{{1, 2}, 1}));
  EXPECT_FALSE(crossed.pools[0].is_crowded());
  EXPECT_TRUE(crossed.pools[1].is_crowded());
}

TEST(Topology, EveryLinkClassHasANameOfItsOwn) {
  EXPECT_EQ(name_of(LinkClass::memory), "memory");
  EXPECT_EQ(name_of(LinkClass::loopback), "loopback");
  EXPECT_EQ(name_of(LinkClass::network), "network");
}

}  // namespace
}  // namespace paceline::topology
