#include "paceline/core/collective/price/cost.h"

#include <gtest/gtest.h>

#include <bit>

#include "paceline/core/collective/building/balanced_tree.h"
#include "paceline/core/collective/program/composition.h"
#include "tests/core/collective/programs.h"
#include "tests/core/collective/random_hosts.h"
#include "tests/support/seed.h"

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

// The time of a number of messages, and of a number of buffers sent and reduced.
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

topology::Profile random_profile(SeededNumbers& numbers) {
  topology::Profile profile;
  for (auto& link : profile.links) {
    for (auto& line : link.lines)
      line = {.alpha = 1e-5 * numbers.unit(), .beta = 1e-9 * numbers.unit()};
  }
  profile.gamma = 1e-9 * numbers.unit();
  profile.crowded = numbers.below(2) == 0 ? 0 : 1e-5 * numbers.unit();
  return profile;
}

TEST(Cost, IsNeverBelowWhatTheAlgorithmStates) {
  SeededNumbers numbers(test::seed(5));
  const Catalogue catalogue = built_in_algorithms();
  for (int ranks = 1; ranks <= (test::kSanitized ? 6 : 20); ++ranks) {
    const auto groups = random_hosts(numbers, ranks, true).groups;
    std::vector<int> cores;
    for (std::size_t i = 0; i < groups.size(); ++i)
      cores.push_back(1 + static_cast<int>(numbers.below(4)));
    const auto hosts = topology::several_hosts(groups, cores);
    auto one_machine = hosts;
    one_machine.pools = topology::one_host(ranks, 2, topology::LinkClass::memory).pools;
    for (const auto& topology :
         {topology::one_host(ranks, 64, topology::LinkClass::loopback),
          topology::separate_hosts(ranks),
          topology::one_host(ranks, 2, topology::LinkClass::memory), hosts, one_machine}) {
      const topology::Profile profile = random_profile(numbers);
      const Shape shape{.ranks = ranks, .groups = topology.hosts};
      for (const Algorithm& algorithm : catalogue) {
        if (!algorithm.fits(shape)) continue;
        const Timetable table = timetable_of(algorithm, shape);
        for (const int all : {1, ranks, ranks * ranks, 700, 40'001, 9'000'000}) {
          const auto bytes = static_cast<std::size_t>(all);
          const Partition partition = Partition::even(bytes, table.chunks);
          const double least = least_cost(algorithm, shape, bytes, topology, profile);
          for (const int segments : {1, 4}) {
            if (segments > 1 && segments > all / table.chunks) continue;  // some would be empty
            const double price = cost(table, {partition, 1, segments}, topology, profile);
            ASSERT_LE(least, price * (1 + 1e-9))
                << algorithm.name << " of " << name_of(algorithm.operation) << ", " << ranks
                << " ranks, " << bytes << " bytes";
          }
        }
      }
    }
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

// A broadcast that every rank hands on to the next one.
Algorithm chain(int ranks) {
  std::vector<Program> programs;
  for (int rank = 0; rank < ranks; ++rank) {
    Program& program = programs.emplace_back(Program{.chunks = 1});
    if (rank > 0) program.rounds.push_back({recv(rank - 1, output(0))});
    if (rank + 1 < ranks) program.rounds.push_back({send(rank + 1, output(0))});
  }
  return with_programs({.operation = Operation::broadcast, .name = "chain"}, programs);
}

double segmented(const Algorithm& algorithm, int ranks, int segments,
                 const topology::Prices& prices = kPrices) {
  const Timetable table = timetable_of(algorithm, {.ranks = ranks});
  const Partition partition = Partition::even(kElements, table.chunks);
  return cost(table, {partition, kElementBytes, segments}, topology::separate_hosts(ranks),
              topology::Profile::uniform(prices));
}

TEST(Cost, SegmentsFollowEachOtherAlongAChain) {
  for (const int ranks : {2, 3, 5, 9}) {
    for (const int segments : {1, 2, 4, 16, 100}) {
      const double m = segments, step = kPrices.alpha + kBytes / m * kPrices.beta;
      EXPECT_NEAR(segmented(chain(ranks), ranks, segments), (ranks - 1 + m - 1) * step, 1e-9)
          << ranks << " ranks, " << segments << " segments";
    }
  }
}

TEST(Cost, NoMoreSegmentsRunAtATimeThanTheExecutorLetsBegin) {
  const int ranks = 4 * kSegmentsInFlight + 1, segments = 1000;
  const double step = kPrices.alpha + kBytes / segments * kPrices.beta;
  EXPECT_GE(segmented(chain(ranks), ranks, segments),
            segments * (ranks - 1) * step / kSegmentsInFlight * 0.99);
}

// Only the sums of the last segment are not hidden behind the port.
TEST(Cost, SegmentsHideTheSumsOfDirectBehindItsMessages) {
  const Algorithm direct = built_in(Operation::all_reduce, "direct");
  for (const int ranks : {2, 4, 8}) {
    for (const int segments : {1, 2, 10}) {
      const double p = ranks, m = segments;
      EXPECT_NEAR(segmented(direct, ranks, segments),
                  price(2 * (p - 1) * m, 2 * (p - 1) / p, (p - 1) / p / m), 1e-9);
    }
  }
}

// A law of the closed forms, for the programs that move the fewest messages and the fewest bytes.
TEST(Cost, TheButterflyBeatsTheRingExactlyBelowTheLengthOfTheFormula) {
  for (const int ranks : {2, 4, 8, 16, 32}) {
    const double p = ranks, h = std::bit_width(static_cast<unsigned>(ranks)) - 1;
    for (std::size_t elements = static_cast<std::size_t>(ranks); elements < (1 << 26);
         elements *= 2) {
      const topology::Prices prices{.alpha = 30e-6, .beta = 1e-9};
      const auto seconds = [&](std::string_view name) {
        const Algorithm algorithm = built_in(Operation::all_reduce, name);
        const int chunks = algorithm.build({.ranks = ranks}).chunks;
        return cost(algorithm, {.ranks = ranks}, Partition::even(elements, chunks), 1, prices);
      };
      const double bytes = static_cast<double>(elements) * prices.beta;
      const double gain = prices.alpha * (2 * (p - 1) - h) - bytes * (h - 2 * (p - 1) / p);
      EXPECT_EQ(seconds("recursive_doubling") < seconds("ring"), gain > 1e-12)
          << ranks << " ranks, " << elements << " bytes";
    }
  }
}

TEST(Cost, EachMessageIsPaidByTheLineOfItsLength) {
  topology::Profile profile = topology::Profile::uniform({});
  profile.link(topology::LinkClass::network) = {{{{1, 0}, {10, 0}, {100, 0}}}};
  const Timetable table = timetable_of(chain(2), {.ranks = 2});
  const auto seconds = [&](std::size_t bytes) {
    const Partition partition = Partition::even(bytes, 1);
    return cost(table, {partition}, topology::separate_hosts(2), profile);
  };
  EXPECT_EQ(seconds(100), 1);
  EXPECT_EQ(seconds(100 << 10), 10);
  EXPECT_EQ(seconds(2 << 20), 100);
}

TEST(Cost, WhatGoesToOnePeerInOneRoundIsOneMessage) {
  std::vector<Program> programs(2, Program{.chunks = 3});
  for (int chunk = 0; chunk < 3; ++chunk) {
    programs[0].rounds.resize(1);
    programs[0].rounds[0].push_back(send(1, output(chunk)));
    programs[1].rounds.resize(1);
    programs[1].rounds[0].push_back(recv(0, output(chunk)));
  }
  const Algorithm three = with_programs({.operation = Operation::broadcast}, programs);
  EXPECT_NEAR(cost(three, {.ranks = 2}, Partition::even(kElements, 3), kElementBytes, kPrices),
              price(1, 1, 0), 1e-9);
}

// --- hosts ---------------------------------------------------------------------------------------

topology::Topology two_hosts(int each) {
  std::vector<std::vector<int>> two(2);
  for (int rank = 0; rank < 2 * each; ++rank)
    two[static_cast<std::size_t>(rank / each)].push_back(rank);
  return topology::several_hosts(two, {64, 64});
}

// Nothing but bytes between hosts costs.
topology::Profile uplinks_alone() {
  topology::Profile profile = topology::Profile::uniform({});
  profile.link(topology::LinkClass::network) = topology::LinkPrices::straight(0, 1);
  return profile;
}

// Reduce within a host, all-reduce between hosts, gather within a host: every rank its own part.
std::vector<Program> two_levels(int each) {
  const int ranks = 2 * each;
  const Algorithm scatter = built_in(Operation::reduce_scatter, "direct"),
                  between = built_in(Operation::all_reduce, "direct"),
                  gather = built_in(Operation::all_gather, "direct");
  std::vector<Program> programs;
  for (int rank = 0; rank < ranks; ++rank) {
    const int local = rank % each, host = rank / each;
    CompositionPart row{.of_chunks = ranks}, column{.of_chunks = ranks};
    for (int i = 0; i < each; ++i) {
      row.ranks.push_back(host * each + i);
      row.chunks.push_back({2 * i, 2 * i + 1});
    }
    column.ranks = {local, each + local};
    column.chunks = {{2 * local}, {2 * local + 1}};
    const Shape in_row{.ranks = each, .rank = local}, in_column{.ranks = 2, .rank = host};
    programs.push_back(in_sequence({on(row, partial(scatter.build(in_row))),
                                    on(column, reads_output(between.build(in_column))),
                                    on(row, reads_output(gather.build(in_row)))}));
  }
  return programs;
}

TEST(Cost, RanksOfAHostShareItsUplink) {
  for (const int each : {1, 2, 3, 4}) {
    const int ranks = 2 * each;
    const std::size_t bytes = static_cast<std::size_t>(ranks) * 100;
    const Partition partition = Partition::even(bytes, ranks);
    const Timetable direct =
        timetable_of(built_in(Operation::all_reduce, "direct"), {.ranks = ranks});
    const double n = static_cast<double>(bytes);
    // Each rank sends a 2g-th to g ranks over there, twice.
    EXPECT_NEAR(cost(direct, {partition}, two_hosts(each), uplinks_alone()), each * n, 1e-6 * n);
    const Timetable hierarchical = timetable_of(two_levels(each));
    EXPECT_NEAR(cost(hierarchical, {partition}, two_hosts(each), uplinks_alone()), n, 1e-6 * n)
        << "no program can do with less";
  }
}

// --- one host ------------------------------------------------------------------------------------

double on_one_host(const Algorithm& algorithm, int ranks, int cores, topology::LinkClass link,
                   const topology::Profile& profile) {
  const Timetable table = timetable_of(algorithm, {.ranks = ranks});
  const Partition partition = Partition::even(kElements, table.chunks);
  return cost(table, {partition, kElementBytes}, topology::one_host(ranks, cores, link), profile);
}

// This is the reading in place of docs/benchmarks.md: direct reads each input once, in its sums,
// and writes each output once.
TEST(Cost, InMemoryNothingIsPaidForWhatIsReadWhereItLies) {
  const topology::Profile profile{
      .links = {topology::LinkPrices::straight(0, 1e6)}, .gamma = 3, .store = 2, .crowded = 0};
  for (const int ranks : {2, 3, 4, 8}) {
    const double part = kBytes * (ranks - 1) / ranks;
    EXPECT_NEAR(on_one_host(built_in(Operation::all_reduce, "direct"), ranks, ranks,
                            topology::LinkClass::memory, profile),
                part * 3 + part * 2, 1e-6);
    EXPECT_NEAR(on_one_host(built_in(Operation::reduce_scatter, "direct"), ranks, ranks,
                            topology::LinkClass::memory, profile),
                part * 3, 1e-6);
  }
}

TEST(Cost, InMemoryABytePassedOnCostsItsReceiverMore) {
  const topology::Profile profile{.links = {topology::LinkPrices::straight(0, 1)},
                                  .gamma = 0,
                                  .copy = 0,
                                  .store = 0,
                                  .relay = 10,
                                  .crowded = 0,
                                  .crowded_reference = 0};
  for (const int ranks : {2, 3, 4, 8}) {
    const auto seconds = [&](const char* name) {
      return on_one_host(built_in(Operation::all_gather, name), ranks, ranks,
                         topology::LinkClass::memory, profile);
    };
    const double copied = kBytes * (ranks - 1) / ranks;
    EXPECT_NEAR(seconds("direct"), copied, 1e-6);
    EXPECT_NEAR(seconds("ring"), copied + 10 * kBytes * (ranks - 2) / ranks, 1e-6)
        << "all but what the neighbour brought himself";
  }
}

TEST(Cost, RanksThatOutnumberCoresShareThem) {
  const topology::Profile profile{.links = {topology::LinkPrices::straight(0, 1)},
                                  .gamma = 3,
                                  .store = 2,
                                  .crowded = 0,
                                  .crowded_reference = 0};
  const Algorithm direct = built_in(Operation::all_reduce, "direct");
  for (const int ranks : {4, 8, 16}) {
    const double alone = on_one_host(direct, ranks, ranks, topology::LinkClass::memory, profile);
    for (int cores = ranks / 2; cores >= 1; cores /= 2) {
      EXPECT_NEAR(on_one_host(direct, ranks, cores, topology::LinkClass::memory, profile),
                  alone * ranks / cores, 1e-6)
          << ranks << " ranks, " << cores << " cores";
    }
  }
}

TEST(Cost, OnACrowdedHostEveryMessageWaitsToBeLetIn) {
  const topology::Profile profile{.links = {topology::LinkPrices::straight(1, 0)},
                                  .gamma = 0,
                                  .copy = 0,
                                  .store = 0,
                                  .crowded = 100};
  const Timetable table = timetable_of(chain(4), {.ranks = 4});
  const Partition partition = Partition::even(1, 1);
  const auto seconds = [&](int cores) {
    return cost(table, {partition}, topology::one_host(4, cores, topology::LinkClass::memory),
                profile);
  };
  EXPECT_NEAR(seconds(4), 3, 1e-9);
  EXPECT_NEAR(seconds(3), 303, 1e-9);
}

TEST(Cost, OverSocketsOfOneHostTheButterflyPaysOneExchangeARound) {
  topology::Profile profile = topology::Profile::uniform(kPrices);
  for (const int ranks : {2, 4, 8, 16}) {
    const double h = std::bit_width(static_cast<unsigned>(ranks)) - 1;
    EXPECT_NEAR(on_one_host(built_in(Operation::all_reduce, "recursive_doubling"), ranks, ranks,
                            topology::LinkClass::loopback, profile),
                price(h, h, h), 1e-6);
  }
}

TEST(Cost, IsNeverLessThanItsBound) {
  for (const Algorithm& algorithm : built_in_algorithms()) {
    for (const int ranks : {1, 2, 3, 6, 8}) {
      const Shape shape{.ranks = ranks};
      if (!algorithm.fits(shape)) continue;
      const Timetable table = timetable_of(algorithm, shape);
      for (const auto& topology : {topology::separate_hosts(ranks),
                                   topology::one_host(ranks, 2, topology::LinkClass::memory),
                                   topology::one_host(ranks, 2, topology::LinkClass::loopback)}) {
        for (const std::size_t bytes : {1, 1000, 1 << 20, 64 << 20}) {
          const Partition partition = Partition::even(bytes, table.chunks);
          for (const int segments : {1, 7}) {
            const CallSize freight{partition, 1, segments};
            EXPECT_LE(least_cost(table, freight, topology, topology::Profile()),
                      cost(table, freight, topology, topology::Profile()) * (1 + 1e-9))
                << algorithm.name;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace paceline::collective
