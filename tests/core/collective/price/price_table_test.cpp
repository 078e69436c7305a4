#include "paceline/core/collective/price/price_table.h"

#include <gtest/gtest.h>

#include "paceline/core/transport/shared/shared_link.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective {
namespace {

using topology::LinkClass;
using Payer = Timetable::Payer;

// Prices that tell every term apart.
const topology::Profile kProfile{
    .links = {topology::LinkPrices::straight(2, 10), topology::LinkPrices::straight(4, 100),
              topology::LinkPrices::straight(6, 1000)},
    .gamma = 3,
    .copy = 5,
    .store = 7,
    .relay = 13,
    .crowded = 11,
    .crowded_reference = 17};

// Ranks 0 and 1 share a host.
topology::Topology hosts(LinkClass within) {
  return topology::several_hosts({{0, 1}, {2}}, {1, 1}, within);
}

LinkCharge charge(LinkClass within, int to, Payer payer, std::size_t bytes = 9) {
  const Partition piece = Partition::even(bytes, 1);
  const topology::Topology topology = hosts(within);
  const PriceTable tariff(piece, 1, topology, kProfile);
  return tariff.of({.from = 0, .to = to, .loads = {{0, payer}}});
}

TEST(PriceTable, BetweenHostsBothPortsAreTakenForTheMessageAndTheUplinkForItsBytes) {
  for (const LinkClass within : {LinkClass::memory, LinkClass::loopback}) {
    for (const Payer payer : {Payer::nobody, Payer::sender, Payer::the_sum, Payer::receiver}) {
      const LinkCharge crossing = charge(within, 2, payer);
      EXPECT_EQ(crossing.link, LinkClass::network);
      EXPECT_EQ(crossing.sender, 6 + 9 * 1000);
      EXPECT_EQ(crossing.receiver, 6 + 9 * 1000);
      EXPECT_EQ(crossing.uplink, 9 * 1000);
    }
  }
}

TEST(PriceTable, OverSocketsOfOneHostEachEndDoesHalf) {
  const LinkCharge half = charge(LinkClass::loopback, 1, Payer::sender);
  EXPECT_EQ(half.sender, (4 + 9 * 100) / 2);
  EXPECT_EQ(half.receiver, half.sender);
  EXPECT_EQ(half.uplink, 0);
}

TEST(PriceTable, InMemoryWhoTouchesTheBytesPaysThem) {
  EXPECT_EQ(charge(LinkClass::memory, 1, Payer::nobody).sender, 1);
  EXPECT_EQ(charge(LinkClass::memory, 1, Payer::nobody).receiver, 1);
  EXPECT_EQ(charge(LinkClass::memory, 1, Payer::sender).sender, 1 + 9 * 10);
  EXPECT_EQ(charge(LinkClass::memory, 1, Payer::the_sum).sender, 1 + 9 * 7);
  EXPECT_EQ(charge(LinkClass::memory, 1, Payer::the_sum).receiver, 1);
  EXPECT_EQ(charge(LinkClass::memory, 1, Payer::receiver).receiver, 1 + 9 * 10);
}

TEST(PriceTable, WhatIsEmptyCostsNothing) {
  for (const int to : {1, 2}) {
    const LinkCharge none = charge(LinkClass::memory, to, Payer::sender, 0);
    EXPECT_TRUE(none.is_empty);
    EXPECT_EQ(none.sender + none.receiver + none.uplink, 0);
  }
}

TEST(PriceTable, WorkIsPaidByTheByteAndARankThatSharesItsCoreByTheWake) {
  const Partition piece = Partition::of({4, 8});
  const topology::Topology topology = hosts(LinkClass::memory);
  const PriceTable tariff(piece, 2, topology, kProfile);
  EXPECT_EQ(tariff.of({.reduced = {0, 1, 1}, .copied = {0}}), 2 * (20 * 3 + 4 * 5));
  EXPECT_EQ(tariff.of({.from = 2, .to = 0, .loads = {{0, Payer::sender}}}).wake, 11);
  EXPECT_EQ(tariff.of({.from = 0, .to = 2, .loads = {{0, Payer::sender}}}).wake, 0);
}

TEST(PriceTable, WhatIsReadInMemoryWaitsForItsNoticeToo) {
  const std::size_t reference = transport::kShortestReference;
  const auto wake = [](LinkClass within, Payer payer, std::size_t bytes) {
    return charge(within, 1, payer, bytes).wake;
  };
  for (const Payer payer : {Payer::nobody, Payer::receiver}) {
    EXPECT_EQ(wake(LinkClass::memory, payer, reference), 17);
    EXPECT_EQ(wake(LinkClass::memory, payer, reference - 1), 11);
    EXPECT_EQ(wake(LinkClass::loopback, payer, reference), 11);
  }
  for (const Payer payer : {Payer::sender, Payer::the_sum})
    EXPECT_EQ(wake(LinkClass::memory, payer, reference), 11);
}

TEST(PriceTable, WhatIsPassedOnCostsItsReceiverMore) {
  const Partition piece = Partition::even(9, 1);
  const topology::Topology topology = hosts(LinkClass::memory);
  const PriceTable tariff(piece, 1, topology, kProfile);
  const auto receiver = [&](Payer payer) {
    return tariff.of({.from = 0, .to = 1, .loads = {{0, payer, true}}}).receiver;
  };
  EXPECT_EQ(receiver(Payer::receiver), 1 + 9 * (10 + 13));
  EXPECT_EQ(receiver(Payer::nobody), 1);
}

TEST(PriceTable, RanksThatShareProcessorsHaveOneEachInTurns) {
  topology::Topology machine = topology::separate_hosts(6);
  machine.pools = {{{0, 2, 4, 5}, 2}, {{1, 3}, 4}};
  const Partition piece = Partition::even(9, 1);
  const PriceTable tariff(piece, 1, machine, kProfile);
  EXPECT_EQ(tariff.core(0), tariff.core(4));
  EXPECT_EQ(tariff.core(2), tariff.core(5));
  EXPECT_NE(tariff.core(0), tariff.core(2));
  EXPECT_NE(tariff.core(1), tariff.core(3));
  EXPECT_EQ(tariff.cores(), 6);
  EXPECT_EQ(tariff.of({.from = 1, .to = 4, .loads = {{0, Payer::nobody}}}).wake, 11);
  EXPECT_EQ(tariff.of({.from = 4, .to = 1, .loads = {{0, Payer::nobody}}}).wake, 0);
}

TEST(PriceTable, TheBusiestIsTheHostsCoreWhereItsRanksShareOne) {
  const Timetable exchange =
      timetable_of(testing::built_in(Operation::all_gather, "ring"), {.ranks = 2});
  const Partition piece = Partition::even(8, 2);
  const auto busiest = [&](int cores) {
    const auto one = topology::one_host(2, cores, LinkClass::loopback);
    return PriceTable(piece, 1, one, kProfile).busiest(exchange);
  };
  // Each rank sends four bytes and takes four.
  EXPECT_EQ(busiest(2), 4 + 4 * 100);
  EXPECT_EQ(busiest(1), 2 * (4 + 4 * 100));
}

// With four ranks on two cores, ranks 0 and 2 share a core. In direct the root sends three messages
// on its core and its neighbour there receives one; in the tree each core has three halves of a
// message to do.
TEST(PriceTable, WhoseCoreIsTheBusiestDependsOnWhereItsRanksAre) {
  topology::Profile profile = topology::Profile::uniform({.alpha = 0, .beta = 1, .gamma = 0});
  const auto busiest = [&](const char* name) {
    const Algorithm broadcast = testing::built_in(Operation::broadcast, name);
    const Timetable table = timetable_of(broadcast, {.ranks = 4});
    const Partition piece = Partition::even(8, table.chunks);
    const auto four = topology::one_host(4, 2, LinkClass::loopback);
    return PriceTable(piece, 1, four, profile).busiest(table);
  };
  EXPECT_EQ(busiest("direct"), 2 * 8);
  EXPECT_EQ(busiest("k_ary_tree"), 1.5 * 8);
}

}  // namespace
}  // namespace paceline::collective
