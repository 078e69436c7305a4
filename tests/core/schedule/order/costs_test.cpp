#include "paceline/core/schedule/order/costs.h"

#include <gtest/gtest.h>

#include "paceline/core/base/result.h"
#include "tests/core/schedule/example_costs.h"

namespace paceline::schedule {
namespace {

constexpr double kTenGigabit = 10e9 / 8;
const CodecCost kPlain;

double held(const Occupancy& one) {
  return one.up + one.down;
}

TEST(Costs, AnAllReduceStartsTwiceLgMessagesAndMovesTheOptimumOfBytes) {
  for (const int workers : {2, 3, 4, 5, 8, 16, 33}) {
    const LinkCosts links = costs_of({.bytes_per_second = 1e9, .workers = workers, .alpha = 1e-6});
    int rounds = 0;
    while (1 << rounds < workers) ++rounds;
    EXPECT_DOUBLE_EQ(links.all_reduce(1e9), 2e-6 * rounds + 2.0 * (workers - 1) / workers);
    EXPECT_DOUBLE_EQ(links.all_gather(1e9), 1e-6 * rounds + (workers - 1));
  }
  EXPECT_EQ(costs_of({.workers = 1}).all_reduce(1e9), 0);
}

TEST(Costs, DedicatedServersHoldADirectionOnceAndColocatedOnesCostAnAllReduce) {
  const Link link{.bytes_per_second = kTenGigabit, .workers = 4, .theta = 0};
  Link colocated = link;
  colocated.servers = Servers::colocated;
  const double n = 1e8;
  const Occupancy there = occupancy(costs_of(link), Path::server, n, kPlain);
  EXPECT_FALSE(there.is_joint);
  EXPECT_DOUBLE_EQ(there.up, n / kTenGigabit);
  EXPECT_DOUBLE_EQ(there.down, there.up);
  const Occupancy here = occupancy(costs_of(colocated), Path::server, n, kPlain);
  EXPECT_TRUE(here.is_joint);
  EXPECT_DOUBLE_EQ(held(here), costs_of(link).all_reduce.beta * n);
  EXPECT_DOUBLE_EQ(costs_of(link).least_per_byte(), 1 / kTenGigabit);
  EXPECT_DOUBLE_EQ(costs_of(colocated).least_per_byte(), costs_of(link).all_reduce.beta);
}

TEST(Costs, ThroughServersAnAllReduceHoldsTheLinkAsASumOnThemDoes) {
  for (const Servers servers : {Servers::dedicated, Servers::colocated}) {
    const LinkCosts links = costs_of({.servers = servers});
    const Occupancy sum = occupancy(links, Path::server, 1e6, {});
    const Occupancy as_ranks = occupancy(through_servers(links), Path::all_to_all, 1e6, {});
    EXPECT_DOUBLE_EQ(
        as_ranks.up,
        (servers == Servers::dedicated ? std::max(sum.up, sum.down) : sum.up) + sum.wait);
  }
}

TEST(Costs, OfASumInPiecesTheLastAloneIsPulledWhenAllIsPushed) {
  LinkCosts links = costs_of({.servers = Servers::dedicated});
  const Occupancy whole = occupancy(links, Path::server, 1e6, {});
  links.server->piece_bytes = 1e5;
  const Occupancy in_pieces = occupancy(links, Path::server, 1e6, {});
  EXPECT_EQ(in_pieces.up, whole.up);
  EXPECT_DOUBLE_EQ(in_pieces.down, whole.down / 10);
  EXPECT_EQ(occupancy(links, Path::server, 1e4, {}).down, links.server->pull(1e4));
}

TEST(Costs, WhatCannotBeSummedGrowsWithTheWorkersOnBothPaths) {
  const CodecCost sparse{.name = "top_k", .ratio = .02, .is_linear = false};
  for (const Servers servers : {Servers::dedicated, Servers::colocated}) {
    const LinkCosts four = costs_of({.workers = 4, .alpha = 0, .theta = 0, .servers = servers});
    const double dense = held(occupancy(four, Path::server, 1e6, kPlain));
    EXPECT_DOUBLE_EQ(held(occupancy(four, Path::server, 1e6, sparse)), dense * 5 / 2);
    EXPECT_DOUBLE_EQ(held(occupancy(four, Path::all_to_all, 1e6, sparse)),
                     held(occupancy(four, Path::all_to_all, 1e6, kPlain)) * 2);
  }
}

TEST(Costs, ASharedScalePaysAFurtherStartUp) {
  const CodecCost scaled{.name = "int8", .ratio = .25, .extra_messages = 1};
  const LinkCosts links = costs_of({});
  EXPECT_DOUBLE_EQ(occupancy(links, Path::all_to_all, 100, scaled).up,
                   occupancy(links, Path::all_to_all, 100, kPlain).up + links.all_reduce.alpha);
  EXPECT_DOUBLE_EQ(occupancy(links, Path::server, 100, scaled).wait, 2 * links.server->turn);
}

TEST(Costs, WhatIsNotThereIsNamed) {
  EXPECT_THROW(occupancy(costs_of({.servers = Servers::none}), Path::server, 1, kPlain), Error);
  EXPECT_THROW(Costs{}.codec("fp16"), Error);
  EXPECT_THROW(costs_of({.workers = 0}), Error);
  EXPECT_THROW(costs_of({.bytes_per_second = 0}), Error);
}

}  // namespace
}  // namespace paceline::schedule
