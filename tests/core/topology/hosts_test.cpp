#include "paceline/core/topology/hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::topology {
namespace {

using ::testing::ElementsAre;

TEST(Topology, EveryRankIsOnOneHost) {
  const Topology two{.hosts = {{0, 2, 4}, {1, 3}}, .cores = {2, 2}};
  EXPECT_EQ(two.ranks(), 5);
  EXPECT_THAT(two.host_of_ranks(), ElementsAre(0, 1, 0, 1, 0));
  EXPECT_TRUE(two.is_crowded(0));
  EXPECT_FALSE(two.is_crowded(1));
  for (int ranks = 1; ranks < 9; ++ranks) {
    EXPECT_EQ(one_host(ranks, 2, LinkClass::loopback).ranks(), ranks);
    EXPECT_EQ(separate_hosts(ranks).ranks(), ranks);
    EXPECT_EQ(separate_hosts(ranks).hosts.size(), static_cast<std::size_t>(ranks));
  }
}

TEST(Topology, AGroupOfAllRanksInOrderIsTheWhole) {
  const Topology whole{
      .hosts = {{0, 2}, {1, 3}}, .cores = {2, 8}, .within_a_host = LinkClass::loopback};
  EXPECT_EQ(topology_of(whole, {0, 1, 2, 3}), whole);
}

TEST(Topology, AGroupNumbersItsMembersAndTheHostsThatAreLeft) {
  const Topology whole{.hosts = {{0, 1}, {2, 3}, {4, 5}}, .cores = {2, 4, 8}};
  const Topology part = topology_of(whole, {5, 1, 4});
  EXPECT_THAT(part.hosts, ElementsAre(ElementsAre(0, 2), ElementsAre(1)));
  EXPECT_THAT(part.cores, ElementsAre(8, 2));
}

TEST(Topology, EveryLinkClassHasANameOfItsOwn) {
  EXPECT_EQ(name_of(LinkClass::memory), "memory");
  EXPECT_EQ(name_of(LinkClass::loopback), "loopback");
  EXPECT_EQ(name_of(LinkClass::network), "network");
}

}  // namespace
}  // namespace paceline::topology
