#include "paceline/core/collective/choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/core/transport/frame.h"
#include "tests/core/collective/programs.h"
#include "tests/core/collective/worlds.h"

namespace paceline::collective {
namespace {

using ::testing::HasSubstr;
using testing::failure_of;

TEST(Choice, IsTheSameOnEveryRank) {
  for (const auto determinism : {Determinism::reproducible, Determinism::fast}) {
    for (const int ranks : {1, 2, 5, 16}) {
      Choice first(built_in_algorithms(), determinism, topology::kLoopback);
      Choice other(built_in_algorithms(), determinism, topology::kLoopback);
      for (const Operation operation : {Operation::all_reduce, Operation::reduce_scatter, Operation::all_gather, Operation::broadcast}) {
        for (std::size_t bytes = 0; bytes < (std::size_t{1} << 28); bytes = bytes * 3 + 1) {
          const auto& a = first.algorithm(operation, "", {.ranks = ranks, .rank = 0}, bytes);
          const auto& b = other.algorithm(operation, "", {.ranks = ranks, .rank = ranks - 1}, bytes);
          EXPECT_EQ(a.name, b.name);
          EXPECT_EQ(a.operation, operation);
          EXPECT_TRUE(determinism == Determinism::fast || a.balanced_tree) << a.name;
        }
      }
    }
  }
}

TEST(Choice, ShortBuffersTakeFewRoundsAndLongOnesFewBytes) {
  Choice choice(built_in_algorithms(), Determinism::reproducible, topology::kLoopback);
  const auto& shortest = choice.algorithm(Operation::broadcast, "", {.ranks = 16}, 4);
  EXPECT_EQ(shortest.name, "binomial");
  EXPECT_EQ(choice.algorithm(Operation::all_reduce, "", {.ranks = 16}, 64 << 20).name, "direct");
}

TEST(Choice, AnUnknownNameIsAnsweredWithTheKnownOnes) {
  Choice choice(built_in_algorithms(), Determinism::fast, topology::kLoopback);
  const auto failure = failure_of([&] { choice.algorithm(Operation::all_reduce, "rign", {.ranks = 4}, 100); });
  EXPECT_EQ(failure.fault, Fault::misuse);
  EXPECT_THAT(failure.what, HasSubstr("no algorithm 'rign' for all_reduce: choose one of binomial, direct, ring"));
}

TEST(Choice, ReproducibleRefusesAnotherOrder) {
  Choice strict(built_in_algorithms(), Determinism::reproducible, topology::kLoopback);
  const auto failure = failure_of([&] { strict.algorithm(Operation::all_reduce, "ring", {.ranks = 4}, 100); });
  EXPECT_EQ(failure.fault, Fault::misuse);
  EXPECT_THAT(failure.what, HasSubstr("PACELINE_DETERMINISM=fast"));
  EXPECT_EQ(strict.algorithm(Operation::all_gather, "ring", {.ranks = 4}, 100).name, "ring");
}

TEST(Choice, WhatDoesNotFitIsRefused) {
  Catalogue pairs_only = {testing::built_in(Operation::all_reduce, "direct")};
  pairs_only[0].fits = [](const Shape& shape) { return shape.ranks == 2; };
  Choice choice(pairs_only, Determinism::fast, topology::kLoopback);
  EXPECT_EQ(choice.algorithm(Operation::all_reduce, "direct", {.ranks = 2}, 100).name, "direct");
  EXPECT_EQ(failure_of([&] { choice.algorithm(Operation::all_reduce, "direct", {.ranks = 3}, 100); }).fault, Fault::misuse);
  EXPECT_EQ(failure_of([&] { choice.algorithm(Operation::all_reduce, "", {.ranks = 3}, 100); }).fault, Fault::misuse);
}

TEST(SegmentCount, IsOneForShortBuffersAndNoMessageIsLongerThanAFrame) {
  for (const bool shares_memory : {false, true}) {
    EXPECT_EQ(segment_count(Partition::even(0, 4), 4, shares_memory), 1);
    EXPECT_EQ(segment_count(Partition::even(1000, 4), 4, shares_memory), 1);
    for (const int chunks : {1, 2, 7, 64}) {
      for (const std::size_t count : {std::size_t{1} << 18, std::size_t{16} << 20, (std::size_t{64} << 20) + 1}) {
        const auto partition = Partition::even(count, chunks);
        const int segments = segment_count(partition, 4, shares_memory);
        for (const int segment : {0, segments - 1}) {
          EXPECT_LE(partition.segment(segment, segments).longest() * 4, transport::kLongestPayload);
        }
      }
    }
  }
}

}  // namespace
}  // namespace paceline::collective
