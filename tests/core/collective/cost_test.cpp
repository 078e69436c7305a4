#include "paceline/core/collective/cost.h"

#include <gtest/gtest.h>

#include "paceline/core/collective/balanced_tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective {
namespace {

using namespace testing;

// Prices that no two terms of a formula can hide behind each other, and a length that 1..16 ranks
// divide evenly.
constexpr topology::Prices kPrices{.alpha = 7.0, .beta = 0.001, .gamma = 0.00013};
constexpr std::size_t kElements = 4800, kElementBytes = 4;
constexpr double kBytes = kElements * kElementBytes;
constexpr int kRankCounts[] = {1, 2, 3, 4, 8, 16};

double cost_of(Operation operation, std::string_view name, int ranks) {
  const Algorithm algorithm = built_in(operation, name);
  const int chunks = algorithm.build({.ranks = ranks}).chunks;
  return cost(algorithm, {.ranks = ranks}, Partition::even(kElements, chunks), kElementBytes,
              kPrices);
}

// A time of specification A1: so many messages, and so many buffers sent and reduced.
double price(double alphas, double sent, double reduced) {
  return alphas * kPrices.alpha + sent * kBytes * kPrices.beta + reduced * kBytes * kPrices.gamma;
}

TEST(Cost, RingAndDirectAllReduceAreTwoPassesOfAnNthForEachPeer) {
  for (const int ranks : kRankCounts) {
    const double p = ranks;
    const double expected = price(2 * (p - 1), 2 * (p - 1) / p, (p - 1) / p);
    EXPECT_NEAR(cost_of(Operation::all_reduce, "ring", ranks), expected, 1e-9) << ranks;
    EXPECT_NEAR(cost_of(Operation::all_reduce, "direct", ranks), expected, 1e-9) << ranks;
  }
}

TEST(Cost, BinomialAllReduceIsTwiceTheHeightOfTheTree) {
  for (const int ranks : kRankCounts) {
    const double h = tree_levels(ranks);
    EXPECT_NEAR(cost_of(Operation::all_reduce, "binomial", ranks), price(2 * h, 2 * h, h), 1e-9)
        << ranks;
  }
}

TEST(Cost, ReduceScatterIsHalfAnAllReduce) {
  for (const int ranks : kRankCounts) {
    const double p = ranks, expected = price(p - 1, (p - 1) / p, (p - 1) / p);
    EXPECT_NEAR(cost_of(Operation::reduce_scatter, "ring", ranks), expected, 1e-9) << ranks;
    EXPECT_NEAR(cost_of(Operation::reduce_scatter, "direct", ranks), expected, 1e-9) << ranks;
  }
}

TEST(Cost, AllGatherSumsNothing) {
  for (const int ranks : kRankCounts) {
    const double p = ranks, expected = price(p - 1, (p - 1) / p, 0);
    EXPECT_NEAR(cost_of(Operation::all_gather, "ring", ranks), expected, 1e-9) << ranks;
    EXPECT_NEAR(cost_of(Operation::all_gather, "direct", ranks), expected, 1e-9) << ranks;
  }
}

TEST(Cost, BroadcastIsTheHeightOfTheTreeOrAllPeersInTurn) {
  for (const int ranks : kRankCounts) {
    const double p = ranks, h = tree_levels(ranks);
    EXPECT_NEAR(cost_of(Operation::broadcast, "binomial", ranks), price(h, h, 0), 1e-9) << ranks;
    EXPECT_NEAR(cost_of(Operation::broadcast, "direct", ranks), price(p - 1, p - 1, 0), 1e-9)
        << ranks;
  }
}

TEST(Cost, CirculantTakesTheFewestMessagesAndTheFewestBytes) {
  for (const int ranks : {1, 2, 3, 4, 5, 6, 8, 12, 15, 16}) {
    const double p = ranks, h = tree_levels(ranks);
    EXPECT_NEAR(cost_of(Operation::reduce_scatter, "circulant", ranks),
                price(h, (p - 1) / p, (p - 1) / p), 1e-9)
        << ranks;
    EXPECT_NEAR(cost_of(Operation::all_gather, "circulant", ranks), price(h, (p - 1) / p, 0), 1e-9)
        << ranks;
  }
}

TEST(Cost, WhatGoesToOnePeerInOneRoundHasOneStartUpTime) {
  const Algorithm relay{.operation = Operation::broadcast, .name = "relay"};
  const Round all{recv(0, output(0)), recv(0, output(1)), recv(0, output(2))};
  const Round interleaved{send(1, input(0)), send(2, input(0)), send(1, input(1)),
                          send(2, input(1)), send(1, input(2)), send(2, input(2))};
  const std::vector<Program> programs = {{.chunks = 3, .rounds = {interleaved}},
                                         {.chunks = 3, .rounds = {all}},
                                         {.chunks = 3, .rounds = {all}}};
  const auto seconds = [&](std::vector<std::size_t> counts) {
    return cost(with_programs(relay, programs), {.ranks = 3}, Partition::of(counts), 1,
                {.alpha = 100, .beta = 1});
  };
  EXPECT_DOUBLE_EQ(seconds({1, 2, 4}), 214);
  EXPECT_DOUBLE_EQ(seconds({0, 2, 4}), 212) << "also where the first chunk is empty";
  EXPECT_DOUBLE_EQ(seconds({0, 0, 0}), 0);
}

TEST(Cost, EmptyChunksAreNotSent) {
  // One element in 16 chunks: only chunk 0 travels, to its owner and back, or round the ring.
  const Algorithm ring = built_in(Operation::all_reduce, "ring");
  const double seconds = cost(ring, {.ranks = 16}, Partition::even(1, 16), 1, {.alpha = 1});
  EXPECT_DOUBLE_EQ(seconds, 30);
  EXPECT_DOUBLE_EQ(cost(ring, {.ranks = 16}, Partition::even(0, 16), 1, {.alpha = 1}), 0);
}

TEST(Cost, TheLongestChunkSetsThePaceOfARing) {
  const Algorithm ring = built_in(Operation::all_gather, "ring");
  const double even = cost(ring, {.ranks = 4}, Partition::of({3, 3, 3, 3}), 1, {.beta = 1});
  const double uneven = cost(ring, {.ranks = 4}, Partition::of({0, 12, 0, 0}), 1, {.beta = 1});
  EXPECT_DOUBLE_EQ(even, 9);
  EXPECT_DOUBLE_EQ(uneven, 36);
}

TEST(Cost, ShortBuffersFavourTheTreeAndLongOnesTheRing) {
  const auto seconds = [](std::string_view name, std::size_t elements) {
    const Algorithm algorithm = built_in(Operation::all_reduce, name);
    const int chunks = algorithm.build({.ranks = 16}).chunks;
    return cost(algorithm, {.ranks = 16}, Partition::even(elements, chunks), 4, topology::kNetwork);
  };
  EXPECT_LT(seconds("binomial", 16), seconds("ring", 16));
  EXPECT_GT(seconds("binomial", 1 << 22), seconds("ring", 1 << 22));
}

TEST(Cost, RefusesAPartitionOfAnotherNumberOfChunks) {
  const Algorithm ring = built_in(Operation::all_reduce, "ring");
  EXPECT_THROW(cost(ring, {.ranks = 4}, Partition::even(100, 3), 4, kPrices), Error);
}

TEST(Cost, RefusesProgramsThatWaitForEachOther) {
  const Algorithm ring = built_in(Operation::all_reduce, "ring");
  auto programs = programs_of(ring, 2);
  programs[0].rounds.pop_back();
  EXPECT_THROW(cost(with_programs(ring, programs), {.ranks = 2}, Partition::even(2, 2), 4, kPrices),
               Error);
}

}  // namespace
}  // namespace paceline::collective
