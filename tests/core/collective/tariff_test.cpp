#include "paceline/core/collective/tariff.h"

#include <gtest/gtest.h>

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
    .crowded = 11};

// Ranks 0 and 1 share a host.
topology::Topology hosts(LinkClass within) {
  return topology::several_hosts({{0, 1}, {2}}, {1, 1}, within);
}

Charge charge(LinkClass within, int to, Payer payer, std::size_t bytes = 9) {
  const Partition piece = Partition::even(bytes, 1);
  const topology::Topology topology = hosts(within);
  const Tariff tariff(piece, 1, topology, kProfile);
  return tariff.of({.from = 0, .to = to, .loads = {{0, payer}}});
}

TEST(Tariff, BetweenHostsBothPortsAreTakenForTheMessageAndTheUplinkForItsBytes) {
  for (const LinkClass within : {LinkClass::memory, LinkClass::loopback}) {
    for (const Payer payer : {Payer::nobody, Payer::sender, Payer::the_sum, Payer::receiver}) {
      const Charge crossing = charge(within, 2, payer);
      EXPECT_EQ(crossing.link, LinkClass::network);
      EXPECT_EQ(crossing.sender, 6 + 9 * 1000);
      EXPECT_EQ(crossing.receiver, 6 + 9 * 1000);
      EXPECT_EQ(crossing.uplink, 9 * 1000);
    }
  }
}

TEST(Tariff, OverSocketsOfOneHostEachEndDoesHalf) {
  const Charge half = charge(LinkClass::loopback, 1, Payer::sender);
  EXPECT_EQ(half.sender, (4 + 9 * 100) / 2);
  EXPECT_EQ(half.receiver, half.sender);
  EXPECT_EQ(half.uplink, 0);
}

TEST(Tariff, InMemoryWhoTouchesTheBytesPaysThem) {
  EXPECT_EQ(charge(LinkClass::memory, 1, Payer::nobody).sender, 1);
  EXPECT_EQ(charge(LinkClass::memory, 1, Payer::nobody).receiver, 1);
  EXPECT_EQ(charge(LinkClass::memory, 1, Payer::sender).sender, 1 + 9 * 10);
  EXPECT_EQ(charge(LinkClass::memory, 1, Payer::the_sum).sender, 1 + 9 * 7);
  EXPECT_EQ(charge(LinkClass::memory, 1, Payer::the_sum).receiver, 1);
  EXPECT_EQ(charge(LinkClass::memory, 1, Payer::receiver).receiver, 1 + 9 * 10);
}

TEST(Tariff, WhatIsEmptyCostsNothing) {
  for (const int to : {1, 2}) {
    const Charge none = charge(LinkClass::memory, to, Payer::sender, 0);
    EXPECT_TRUE(none.is_empty);
    EXPECT_EQ(none.sender + none.receiver + none.uplink, 0);
  }
}

TEST(Tariff, WorkIsPaidByTheByteAndARankThatSharesItsCoreByTheWake) {
  const Partition piece = Partition::of({4, 8});
  const topology::Topology topology = hosts(LinkClass::memory);
  const Tariff tariff(piece, 2, topology, kProfile);
  EXPECT_EQ(tariff.of({.reduced = {0, 1, 1}, .copied = {0}}), 2 * (20 * 3 + 4 * 5));
  EXPECT_EQ(tariff.wake(0), 11);
  EXPECT_EQ(tariff.wake(2), 0);
}

TEST(Tariff, TheBusiestIsTheHostsCoreWhereItsRanksShareOne) {
  const Timetable exchange =
      timetable_of(testing::built_in(Operation::all_gather, "ring"), {.ranks = 2});
  const Partition piece = Partition::even(8, 2);
  const auto busiest = [&](int cores) {
    const auto one = topology::one_host(2, cores, LinkClass::loopback);
    return Tariff(piece, 1, one, kProfile).busiest(exchange);
  };
  // Each rank sends four bytes and takes four.
  EXPECT_EQ(busiest(2), 4 + 4 * 100);
  EXPECT_EQ(busiest(1), 2 * (4 + 4 * 100));
}

}  // namespace
}  // namespace paceline::collective
