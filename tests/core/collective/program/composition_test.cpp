#include "paceline/core/collective/program/composition.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "paceline/core/base/seed.h"
#include "tests/core/collective/programs.h"
#include "tests/support/seed.h"

namespace paceline::collective {
namespace {

using namespace testing;

std::vector<int> all_of(int count) {
  std::vector<int> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// The programs of all ranks, proven as an operation that promises nothing about its bits.
std::string fault_of_all(Operation operation, int ranks,
                         const std::function<Program(const Shape&)>& build) {
  std::vector<Program> programs;
  for (int rank = 0; rank < ranks; ++rank)
    programs.push_back(build({.ranks = ranks, .rank = rank}));
  const Algorithm plain{
      .operation = operation, .name = "composed", .determinism = DeterminismClass::d2};
  return fault_of(plain, programs);
}

TEST(Composition, AReduceScatterAndAnAllGatherMakeAnAllReduce) {
  for (const auto* scatter : {"direct", "ring"}) {
    for (const auto* gather : {"direct", "ring"}) {
      const auto first = built_in(Operation::reduce_scatter, scatter);
      const auto second = built_in(Operation::all_gather, gather);
      const auto both = [&](const Shape& shape) {
        const Program back = without_stores(second.build(shape));
        return in_sequence({first.build(shape), reads_output(back)});
      };
      for (int ranks = 2; ranks <= 9; ++ranks)
        EXPECT_EQ(fault_of_all(Operation::all_reduce, ranks, both), "");
    }
  }
}

TEST(Composition, AStoreIntoWhatAPartBeforeStillSendsIsFound) {
  const auto first = built_in(Operation::reduce_scatter, "ring");
  const auto second = built_in(Operation::all_gather, "direct");
  const auto both = [&](const Shape& shape) {
    return in_sequence({first.build(shape), reads_output(second.build(shape))});
  };
  EXPECT_THAT(fault_of_all(Operation::all_reduce, 3, both),
              ::testing::HasSubstr("still uses the slot"));
}

TEST(Composition, TheWayBackOfAReductionIsItsBroadcast) {
  for (const auto* name : {"binomial", "linear"}) {
    const auto reduction = built_in(Operation::reduce, name);
    for (int ranks = 2; ranks <= 9; ++ranks) {
      EXPECT_EQ(fault_of_all(Operation::broadcast, ranks,
                             [&](const Shape& shape) {
                               Program program = way_back(reduction.build(shape));
                               if (shape.rank != 0) return program;
                               const Program own{.chunks = 1,
                                                 .rounds = {{copy(input(0), output(0))}}};
                               return in_sequence({own, program});
                             }),
                "")
          << name;
    }
  }
}

TEST(Composition, TheWayBackOfAReduceScatterIsItsAllGather) {
  for (const auto* name : {"direct", "ring"}) {
    const auto scatter = built_in(Operation::reduce_scatter, name);
    for (int ranks = 2; ranks <= 9; ++ranks) {
      EXPECT_EQ(fault_of_all(Operation::all_gather, ranks,
                             [&](const Shape& shape) {
                               const Slot own = output(shape.rank);
                               const Program first{.chunks = ranks,
                                                   .rounds = {{copy(input(shape.rank), own)}}};
                               return in_sequence({first, way_back(scatter.build(shape))});
                             }),
                "")
          << name;
    }
  }
}

TEST(Composition, AnAllReduceThatTurnsBackEarlyIsAReduceScatter) {
  for (const auto* name : {"direct", "ring"}) {
    const auto all = built_in(Operation::all_reduce, name);
    for (int ranks = 2; ranks <= 5; ++ranks) {
      EXPECT_EQ(fault_of_all(Operation::reduce_scatter, ranks,
                             [&](const Shape& shape) {
                               const Program program = without_stores(all.build(shape));
                               return others_in_scratch(program, shape.rank);
                             }),
                "")
          << name;
    }
  }
}

TEST(Composition, WhatIsReadBeforeItIsWrittenLiesInTheInput) {
  const Program program{.chunks = 2,
                        .rounds = {{send(1, output(0)), recv(1, output(1))},
                                   {send(1, output(1)), recv_reduce(1, output(0), output(0), true)},
                                   {send(1, output(0))}}};
  EXPECT_EQ(to_string(with_copy(reads_input(program), 0)),
            "round 0: send to 1: input(0)\n"
            "         recv from 1: output(1)\n"
            "round 1: send to 1: output(1)\n"
            "         recv_reduce from 1: output(0) = input(0) OP received\n"
            "round 2: send to 1: output(0)\n"
            "         copy: output(0) = input(0)\n");
}

TEST(Composition, EmptyRoundsCanBeDropped) {
  const Round one{send(1, input(0))}, two{recv(1, output(0))};
  const Program program{.chunks = 1, .rounds = {{}, one, {}, {}, two, {}}};
  EXPECT_EQ(without_empty_rounds(program), (Program{.chunks = 1, .rounds = {one, two}}));
}

// Sums of each host at its first rank, of these among each other, and back.
Program by_hosts(const Shape& shape, const std::vector<std::vector<int>>& hosts) {
  std::vector<int> leaders, local;
  for (const auto& host : hosts) {
    leaders.push_back(host.front());
    if (std::ranges::find(host, shape.rank) != host.end()) local = host;
  }
  const auto place = [](const std::vector<int>& ranks, int rank) {
    return Shape{.ranks = static_cast<int>(ranks.size()),
                 .rank = static_cast<int>(std::ranges::find(ranks, rank) - ranks.begin())};
  };
  const auto whole = [](const std::vector<int>& ranks) { return CompositionPart{ranks, {{0}}, 1}; };
  const bool one_host = hosts.size() == 1;
  const Program up =
      on(whole(local), built_in(Operation::reduce, "binomial").build(place(local, shape.rank)));
  std::vector<Program> parts{one_host ? up : partial(up)};
  if (local.front() == shape.rank && !one_host) {
    parts.push_back(reads_output(on(
        whole(leaders),
        built_in(Operation::all_reduce, "recursive_doubling").build(place(leaders, shape.rank)))));
  }
  parts.push_back(reads_output(on(
      whole(local), built_in(Operation::broadcast, "binomial").build(place(local, shape.rank)))));
  return in_sequence(parts);
}

TEST(Composition, HostsOfAnySizesMakeAHierarchy) {
  SeededNumbers numbers(test::seed(7));
  for (int i = 0; i < 60; ++i) {
    std::vector<std::vector<int>> hosts;
    int ranks = 0;
    for (auto left = 1 + numbers.below(5); left > 0; --left) {
      auto& host = hosts.emplace_back();
      for (auto size = 1 + numbers.below(4); size > 0; --size) host.push_back(ranks++);
    }
    if (ranks == 1) continue;
    EXPECT_EQ(fault_of_all(Operation::all_reduce, ranks,
                           [&](const Shape& shape) { return by_hosts(shape, hosts); }),
              "")
        << ranks;
  }
}

TEST(Composition, ChunksOfAPartMayStandForSeveral) {
  // A ring of three chunks on seven: 0 1 2 | 3 | none, and 4 5 6 by another ring.
  const auto ring = built_in(Operation::all_reduce, "ring");
  EXPECT_EQ(fault_of_all(Operation::all_reduce, 3,
                         [&](const Shape& shape) {
                           const CompositionPart some{all_of(3), {{0, 1, 2}, {3}, {}}, 7};
                           const CompositionPart rest{all_of(3), {{6}, {4}, {5}}, 7};
                           const Program program = ring.build(shape);
                           return side_by_side({on(some, program), on(rest, program)});
                         }),
            "");
}

TEST(Composition, RanksOfAPartMayStandInAnyOrder) {
  const auto direct = built_in(Operation::all_reduce, "direct");
  EXPECT_EQ(fault_of_all(Operation::all_reduce, 4,
                         [&](const Shape& shape) {
                           const std::vector<int> order{2, 0, 3, 1};
                           const auto at = std::ranges::find(order, shape.rank) - order.begin();
                           const CompositionPart part{order, {{0}, {1}, {2}, {3}}, 4};
                           return on(part,
                                     direct.build({.ranks = 4, .rank = static_cast<int>(at)}));
                         }),
            "");
}

TEST(Composition, AWholeSumThatWasNotMarkedIsFound) {
  EXPECT_THAT(fault_of_all(Operation::all_reduce, 3,
                           [&](const Shape& shape) {
                             return partial(built_in(Operation::all_reduce, "ring").build(shape));
                           }),
              ::testing::HasSubstr("complete"));
}

TEST(Composition, OfDifferentChunkCountsIsRefused) {
  const Program one{.chunks = 1}, two{.chunks = 2};
  EXPECT_THROW(in_sequence({one, two}), Error);
  EXPECT_THROW(side_by_side({one, two}), Error);
  EXPECT_THROW(on({{0}, {{0}}, 1}, two), Error);
}

}  // namespace
}  // namespace paceline::collective
