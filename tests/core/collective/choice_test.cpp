#include "paceline/core/collective/choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "paceline/core/transport/frame.h"
#include "tests/core/collective/programs.h"
#include "tests/core/collective/worlds.h"

namespace paceline::collective {
namespace {

using testing::failure_of;
using ::testing::HasSubstr;

TEST(Choice, IsTheSameOnEveryRank) {
  for (const auto determinism : {Determinism::reproducible, Determinism::fast}) {
    for (const int ranks : {1, 2, 5, 16}) {
      Choice first(built_in_algorithms(), determinism, topology::kLoopback);
      Choice other(built_in_algorithms(), determinism, topology::kLoopback);
      for (const Operation operation : {Operation::all_reduce, Operation::reduce_scatter,
                                        Operation::all_gather, Operation::broadcast}) {
        for (std::size_t bytes = 0; bytes < (std::size_t{1} << 28); bytes = bytes * 3 + 1) {
          const auto& a = first.algorithm(operation, "", {.ranks = ranks, .rank = 0}, bytes);
          const auto& b =
              other.algorithm(operation, "", {.ranks = ranks, .rank = ranks - 1}, bytes);
          EXPECT_EQ(a.name, b.name);
          EXPECT_EQ(a.operation, operation);
          EXPECT_TRUE(determinism == Determinism::fast || a.has_balanced_tree(ranks)) << a.name;
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
  const auto failure =
      failure_of([&] { choice.algorithm(Operation::all_reduce, "rign", {.ranks = 4}, 100); });
  EXPECT_EQ(failure.fault, Fault::misuse);
  EXPECT_THAT(failure.what, HasSubstr("no algorithm 'rign' for all_reduce: choose one of binomial, "
                                      "direct, recursive_doubling, ring"));
}

TEST(Choice, NamesAreThoseThatCanBeHad) {
  const Catalogue catalogue = built_in_algorithms();
  for (const auto determinism : {Determinism::reproducible, Determinism::fast}) {
    Choice choice(catalogue, determinism, topology::kLoopback);
    for (const int ranks : {1, 4, 5}) {
      for (const bool one_rounding : {false, true}) {
        const Shape shape{.ranks = ranks};
        for (const Algorithm& a : catalogue) {
          const auto names = choice.names(a.operation, shape, one_rounding);
          const bool named = std::ranges::find(names, a.name) != names.end();
          const auto take = [&] {
            choice.algorithm(a.operation, a.name, shape, 100, one_rounding);
          };
          if (named) EXPECT_NO_THROW(take()) << a.name;
          else EXPECT_EQ(failure_of(take).fault, Fault::misuse) << a.name;
        }
      }
    }
  }
}

TEST(Choice, ReproducibleRefusesAnotherOrder) {
  Choice strict(built_in_algorithms(), Determinism::reproducible, topology::kLoopback);
  const auto failure =
      failure_of([&] { strict.algorithm(Operation::all_reduce, "ring", {.ranks = 4}, 100); });
  EXPECT_EQ(failure.fault, Fault::misuse);
  EXPECT_THAT(failure.what, HasSubstr("PACELINE_DETERMINISM=fast"));
  EXPECT_EQ(strict.algorithm(Operation::all_gather, "ring", {.ranks = 4}, 100).name, "ring");
}

TEST(Choice, WhatDoesNotFitIsRefused) {
  Catalogue pairs_only = {testing::built_in(Operation::all_reduce, "direct")};
  pairs_only[0].fits = [](const Shape& shape) { return shape.ranks == 2; };
  Choice choice(pairs_only, Determinism::fast, topology::kLoopback);
  EXPECT_EQ(choice.algorithm(Operation::all_reduce, "direct", {.ranks = 2}, 100).name, "direct");
  EXPECT_EQ(failure_of([&] {
              choice.algorithm(Operation::all_reduce, "direct", {.ranks = 3}, 100);
            }).fault,
            Fault::misuse);
  EXPECT_EQ(
      failure_of([&] { choice.algorithm(Operation::all_reduce, "", {.ranks = 3}, 100); }).fault,
      Fault::misuse);
}

TEST(Choice, SixteenBitSumsAreRoundedOnceWhereThatIsPromised) {
  for (const auto determinism : {Determinism::reproducible, Determinism::fast}) {
    Choice choice(built_in_algorithms(), determinism, topology::kLoopback);
    for (const Operation operation :
         {Operation::all_reduce, Operation::reduce_scatter, Operation::reduce}) {
      for (const int ranks : {1, 2, 5, 16}) {
        for (std::size_t bytes = 0; bytes < (std::size_t{1} << 28); bytes = bytes * 7 + 1) {
          EXPECT_TRUE(choice.algorithm(operation, "", {.ranks = ranks}, bytes, true).rounds_once);
        }
      }
    }
    const auto failure = failure_of(
        [&] { choice.algorithm(Operation::all_reduce, "binomial", {.ranks = 4}, 100, true); });
    EXPECT_THAT(failure.what, HasSubstr("rounds partial sums of 16-bit types"));
    EXPECT_EQ(choice.algorithm(Operation::all_reduce, "binomial", {.ranks = 4}, 100).name,
              "binomial");
  }
}

TEST(PieceBytes, FitIntoAFrameAndShrinkWithTheNumberOfChunks) {
  for (const bool shares_memory : {false, true}) {
    std::size_t before = transport::kLongestPayload;
    for (const int chunks : {1, 2, 7, 64, 4096}) {
      EXPECT_LE(piece_bytes(chunks, shares_memory), before);
      before = piece_bytes(chunks, shares_memory);
      EXPECT_GE(before, 16U << 10) << "shorter ones would be all header";
    }
  }
}

}  // namespace
}  // namespace paceline::collective
