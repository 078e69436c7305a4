#include "paceline/core/collective/price/choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "paceline/core/transport/frame/frame.h"
#include "tests/core/collective/programs.h"
#include "tests/core/collective/worlds.h"

namespace paceline::collective {
namespace {

using testing::failure_of;
using ::testing::HasSubstr;
using topology::LinkClass;

topology::Topology loopback(int ranks) {
  return topology::one_host(ranks, 64, LinkClass::loopback);
}

TEST(AlgorithmChoice, IsTheSameOnEveryRank) {
  for (const auto determinism : {Determinism::reproducible, Determinism::fast}) {
    for (const int ranks : {1, 2, 5, 16}) {
      AlgorithmChoice first(built_in_algorithms(), determinism, loopback(ranks));
      AlgorithmChoice other(built_in_algorithms(), determinism, loopback(ranks));
      for (const Operation operation : {Operation::all_reduce, Operation::reduce_scatter,
                                        Operation::all_gather, Operation::broadcast}) {
        for (std::size_t bytes = 0; bytes < (std::size_t{1} << 28); bytes = bytes * 3 + 1) {
          const AlgorithmCandidate one =
              first.choose(operation, "", {.ranks = ranks, .rank = 0}, bytes);
          const AlgorithmCandidate two =
              other.choose(operation, "", {.ranks = ranks, .rank = ranks - 1}, bytes);
          const Algorithm &a = *one.algorithm, &b = *two.algorithm;
          EXPECT_EQ(a.name, b.name);
          EXPECT_EQ(one.piece_bytes, two.piece_bytes);
          EXPECT_EQ(a.operation, operation);
          EXPECT_TRUE(determinism == Determinism::fast || a.has_balanced_tree({.ranks = ranks}))
              << a.name;
        }
      }
    }
  }
}

TEST(AlgorithmChoice, ShortBuffersTakeFewRoundsAndLongOnesFewBytes) {
  AlgorithmChoice choice(built_in_algorithms(), Determinism::reproducible, loopback(16));
  const AlgorithmCandidate shortest = choice.choose(Operation::broadcast, "", {.ranks = 16}, 4);
  EXPECT_EQ(shortest.algorithm->name, "binomial");
  const auto& longest =
      *choice.choose(Operation::all_reduce, "", {.ranks = 16}, 64 << 20).algorithm;
  const long chunks = longest.build({.ranks = 16}).chunks;
  for (const long sent : testing::proof_of(longest, 16).sent_chunks)
    EXPECT_EQ(16 * sent, 2 * 15 * chunks) << longest.name << " sends more than it must";
}

TEST(AlgorithmChoice, OfTheSameMessagesTheFewestRoundingsAndTheLeastMemoryWin) {
  for (const int ranks : {1, 2, 3, 5}) {  // bcube and hierarchical are direct there
    AlgorithmChoice strict(built_in_algorithms(), Determinism::reproducible, loopback(ranks));
    const AlgorithmCandidate chosen =
        strict.choose(Operation::all_reduce, "", {.ranks = ranks}, 64 << 20);
    EXPECT_EQ(chosen.algorithm->name, "direct");
  }
  const Catalogue rings = {testing::built_in(Operation::all_reduce, "blueconnect"),
                           testing::built_in(Operation::all_reduce, "ring")};
  AlgorithmChoice fast(rings, Determinism::fast, loopback(7));
  EXPECT_EQ(fast.choose(Operation::all_reduce, "", {.ranks = 7}, 64 << 20).algorithm->name, "ring");
}

TEST(AlgorithmChoice, OfTheSamePriceTheFewestConnectionsWin) {
  const Catalogue two = {testing::built_in(Operation::all_gather, "circulant"),
                         testing::built_in(Operation::all_gather, "recursive_doubling")};
  for (const int ranks : {4, 8, 16}) {
    AlgorithmChoice choice(two, Determinism::reproducible, loopback(ranks));
    const auto all = choice.candidates(Operation::all_gather, {.ranks = ranks}, 256 << 10);
    EXPECT_EQ(all[0].seconds, all[1].seconds);
    EXPECT_EQ(all[0].algorithm->name, "recursive_doubling");
  }
}

TEST(AlgorithmChoice, AnUnknownNameIsAnsweredWithTheKnownOnes) {
  AlgorithmChoice choice(built_in_algorithms(), Determinism::fast, loopback(4));
  const auto failure =
      failure_of([&] { choice.choose(Operation::all_reduce, "rign", {.ranks = 4}, 100); });
  EXPECT_EQ(failure.fault, Fault::misuse);
  EXPECT_THAT(failure.what, HasSubstr("no algorithm 'rign' for all_reduce: choose one of "));
  for (const Algorithm& known : built_in_algorithms()) {
    if (known.operation != Operation::all_reduce) continue;
    EXPECT_THAT(failure.what, HasSubstr(std::string(known.name)));
  }
}

TEST(AlgorithmChoice, NamesAreThoseThatCanBeHad) {
  const Catalogue catalogue = built_in_algorithms();
  for (const auto determinism : {Determinism::reproducible, Determinism::fast}) {
    for (const int ranks : {1, 4, 5}) {
      AlgorithmChoice choice(catalogue, determinism, loopback(ranks));
      for (const bool one_rounding : {false, true}) {
        const Shape shape{.ranks = ranks};
        for (const Algorithm& a : catalogue) {
          const auto names = choice.names(a.operation, shape, one_rounding);
          const bool named = std::ranges::find(names, a.name) != names.end();
          const auto take = [&] { choice.choose(a.operation, a.name, shape, 100, one_rounding); };
          if (named) EXPECT_NO_THROW(take()) << a.name;
          else EXPECT_EQ(failure_of(take).fault, Fault::misuse) << a.name;
        }
      }
    }
  }
}

TEST(AlgorithmChoice, OfAnAllToAllWithCountsIsNoAlgorithmThatNeedsEqualOnes) {
  constexpr std::size_t kWithCounts = 0;
  for (int ranks = 1; ranks <= 33; ++ranks) {
    AlgorithmChoice choice(built_in_algorithms(), Determinism::fast, loopback(ranks));
    const auto chosen = [&](std::size_t bytes) {
      return choice.choose(Operation::all_to_all, "", {.ranks = ranks}, bytes).algorithm;
    };
    EXPECT_FALSE(chosen(kWithCounts)->needs_equal_counts) << ranks;
    for (const auto& one : choice.candidates(Operation::all_to_all, {.ranks = ranks}, kWithCounts))
      EXPECT_FALSE(one.algorithm->needs_equal_counts) << ranks;
    if (ranks >= 8) {
      const auto each = static_cast<std::size_t>(ranks);
      EXPECT_EQ(chosen(each)->name, "bruck") << ranks;
      EXPECT_EQ(chosen(each << 20)->name, "pairwise") << ranks;
    }
  }
}

TEST(AlgorithmChoice, ReproducibleRefusesAnotherOrder) {
  AlgorithmChoice strict(built_in_algorithms(), Determinism::reproducible, loopback(4));
  const auto failure =
      failure_of([&] { strict.choose(Operation::all_reduce, "ring", {.ranks = 4}, 100); });
  EXPECT_EQ(failure.fault, Fault::misuse);
  EXPECT_THAT(failure.what, HasSubstr("PACELINE_DETERMINISM=fast"));
  EXPECT_EQ(strict.choose(Operation::all_gather, "ring", {.ranks = 4}, 100).algorithm->name,
            "ring");
}

TEST(AlgorithmChoice, WhatDoesNotFitIsRefused) {
  Catalogue pairs_only = {testing::built_in(Operation::all_reduce, "direct")};
  pairs_only[0].fits = [](const Shape& shape) { return shape.ranks == 2; };
  AlgorithmChoice two(pairs_only, Determinism::fast, loopback(2));
  AlgorithmChoice three(pairs_only, Determinism::fast, loopback(3));
  EXPECT_EQ(two.choose(Operation::all_reduce, "direct", {.ranks = 2}, 100).algorithm->name,
            "direct");
  for (const std::string_view name : {"direct", ""}) {
    const auto failure =
        failure_of([&] { three.choose(Operation::all_reduce, name, {.ranks = 3}, 100); });
    EXPECT_EQ(failure.fault, Fault::misuse) << name;
  }
}

TEST(AlgorithmChoice, SixteenBitSumsAreRoundedOnceWhereThatIsPromised) {
  for (const auto determinism : {Determinism::reproducible, Determinism::fast}) {
    for (const int ranks : {1, 2, 5, 16}) {
      AlgorithmChoice choice(built_in_algorithms(), determinism, loopback(ranks));
      for (const Operation operation :
           {Operation::all_reduce, Operation::reduce_scatter, Operation::reduce}) {
        for (std::size_t bytes = 0; bytes < (std::size_t{1} << 28); bytes = bytes * 7 + 1) {
          const AlgorithmCandidate chosen =
              choice.choose(operation, "", {.ranks = ranks}, bytes, true);
          EXPECT_TRUE(chosen.algorithm->rounds_once);
        }
      }
    }
    AlgorithmChoice choice(built_in_algorithms(), determinism, loopback(4));
    const auto failure = failure_of(
        [&] { choice.choose(Operation::all_reduce, "binomial", {.ranks = 4}, 100, true); });
    EXPECT_THAT(failure.what, HasSubstr("rounds partial sums of 16-bit types"));
    EXPECT_EQ(choice.choose(Operation::all_reduce, "binomial", {.ranks = 4}, 100).algorithm->name,
              "binomial");
  }
}

TEST(AlgorithmChoice, IsTheCheapestOfItsCandidates) {
  const auto two_hosts = topology::several_hosts({{0, 1, 2}, {3, 4, 5}}, {2, 2});
  for (const auto& topology : {loopback(6), two_hosts, topology::separate_hosts(6), loopback(16),
                               topology::one_host(4, 2, LinkClass::memory)}) {
    AlgorithmChoice choice(built_in_algorithms(), Determinism::fast, topology);
    const Shape shape{.ranks = topology.ranks()};
    for (std::size_t bytes = 4; bytes <= (64 << 20); bytes *= 16) {
      const auto all = choice.candidates(Operation::all_reduce, shape, bytes);
      EXPECT_TRUE(std::ranges::is_sorted(all, {}, &AlgorithmCandidate::seconds));
      const AlgorithmCandidate chosen = choice.choose(Operation::all_reduce, "", shape, bytes);
      EXPECT_EQ(chosen.algorithm, all[0].algorithm);
      EXPECT_EQ(chosen.piece_bytes, all[0].piece_bytes);
      for (const AlgorithmCandidate& other : all) {
        const auto named =
            choice.choose(Operation::all_reduce, other.algorithm->name, shape, bytes);
        EXPECT_EQ(named.piece_bytes, other.piece_bytes) << "by name the segments are the same";
      }
    }
  }
}

TEST(AlgorithmChoice, ABoundLeavesOutNoneThatIsCheaper) {
  for (const LinkClass link : {LinkClass::memory, LinkClass::loopback}) {
    for (const int ranks : {3, 8, 24}) {
      for (const int cores : {2, 64}) {
        const auto topology = topology::one_host(ranks, cores, link);
        const Shape shape{.ranks = ranks, .groups = topology.hosts};
        for (const Operation operation :
             {Operation::all_reduce, Operation::all_gather, Operation::broadcast, Operation::gather,
              Operation::all_to_all}) {
          AlgorithmChoice choice(built_in_algorithms(), Determinism::fast, topology);
          AlgorithmChoice all(built_in_algorithms(), Determinism::fast, topology);
          for (const std::size_t bytes : {1, 4, 100, 70'000}) {
            const AlgorithmCandidate chosen = choice.choose(operation, "", shape, bytes);
            const AlgorithmCandidate best = all.candidates(operation, shape, bytes).front();
            EXPECT_EQ(chosen.algorithm->name, best.algorithm->name)
                << name_of(operation) << ", " << ranks << " ranks, " << bytes << " bytes";
            EXPECT_EQ(chosen.seconds, best.seconds);
          }
        }
      }
    }
  }
}

// Counts the programs that are made of it.
int built = 0;

TEST(AlgorithmChoice, MakesNoProgramsOfWhatCannotBeTheCheapest) {
  constexpr int kRanks = 64;
  Catalogue two = {testing::built_in(Operation::all_reduce, "direct"),
                   testing::built_in(Operation::all_reduce, "recursive_doubling")};
  two[0].build = [](const Shape& shape) {
    static const Algorithm direct = testing::built_in(Operation::all_reduce, "direct");
    ++built;
    return direct.build(shape);
  };
  AlgorithmChoice choice(two, Determinism::reproducible, loopback(kRanks));
  const auto chosen = [&](std::size_t bytes) {
    return choice.choose(Operation::all_reduce, "", {.ranks = kRanks}, bytes).algorithm->name;
  };
  EXPECT_EQ(chosen(4096), "recursive_doubling");
  EXPECT_EQ(chosen(4), "recursive_doubling") << "also where some chunks may be empty";
  EXPECT_EQ(built, 0);
  AlgorithmChoice crowded(two, Determinism::reproducible,
                          topology::one_host(kRanks, 2, LinkClass::memory));
  EXPECT_EQ(crowded.choose(Operation::all_reduce, "", {.ranks = kRanks}, 4).algorithm->name,
            "recursive_doubling");
  EXPECT_EQ(built, 0) << "two cores do the work of all";
  EXPECT_EQ(chosen(256 << 20), "direct");
  EXPECT_GE(built, kRanks);
}

TEST(AlgorithmChoice, DoesNotDependOnWhichRootWasAskedForFirst) {
  const auto uneven = topology::several_hosts({{0}, {1, 2, 3, 4}}, {2, 2});
  AlgorithmChoice forwards(built_in_algorithms(), Determinism::fast, uneven);
  AlgorithmChoice backwards(built_in_algorithms(), Determinism::fast, uneven);
  for (int root = 0; root < 5; ++root) {
    const auto one = forwards.choose(Operation::broadcast, "", {.ranks = 5, .root = root}, 5000);
    const auto two =
        backwards.choose(Operation::broadcast, "", {.ranks = 5, .root = 4 - root}, 5000);
    EXPECT_EQ(one.algorithm->name, two.algorithm->name);
  }
}

// The figures of one host in docs/benchmarks.md.
TEST(AlgorithmChoice, TwoRanksInMemoryExchangeShortBuffersAndShareTheWorkOnLongOnes) {
  AlgorithmChoice choice(built_in_algorithms(), Determinism::reproducible,
                         topology::one_host(2, 2, LinkClass::memory));
  const auto name = [&](std::size_t bytes) {
    return choice.choose(Operation::all_reduce, "", {.ranks = 2}, bytes).algorithm->name;
  };
  for (const std::size_t bytes : {4, 256, 1024}) EXPECT_EQ(name(bytes), "recursive_doubling");
  for (std::size_t bytes = 16 << 10; bytes <= (256 << 20); bytes *= 4)
    EXPECT_EQ(name(bytes), "direct") << bytes;
}

TEST(AlgorithmChoice, AnotherProfileMayChooseAnother) {
  topology::Profile dear_messages, dear_bytes;
  dear_messages.link(LinkClass::loopback) = topology::LinkPrices::straight(1, 0);
  dear_bytes.link(LinkClass::loopback) = topology::LinkPrices::straight(0, 1);
  const auto name = [](const topology::Profile& profile) {
    AlgorithmChoice choice(built_in_algorithms(), Determinism::reproducible, loopback(8), profile);
    return choice.choose(Operation::all_reduce, "", {.ranks = 8}, 4096).algorithm->name;
  };
  EXPECT_NE(name(dear_messages), name(dear_bytes));
}

TEST(AlgorithmChoice, PiecesFitIntoAFrameAndAreNotAllHeader) {
  for (const LinkClass link : {LinkClass::memory, LinkClass::loopback}) {
    for (const int ranks : {1, 2, 7, 16}) {
      AlgorithmChoice choice(built_in_algorithms(), Determinism::fast,
                             topology::one_host(ranks, 64, link));
      for (const Operation operation : {Operation::all_reduce, Operation::broadcast,
                                        Operation::all_to_all, Operation::reduce_scatter}) {
        for (std::size_t bytes = 0; bytes < (std::size_t{1} << 33); bytes = bytes * 9 + 1) {
          for (const AlgorithmCandidate& one :
               choice.candidates(operation, {.ranks = ranks}, bytes)) {
            EXPECT_LE(one.piece_bytes, transport::kLongestPayload);
            EXPECT_GE(one.piece_bytes, 16U << 10);
          }
        }
      }
    }
  }
}

TEST(SizeClass, IsAtMostAQuarterShorterAndKeepsThePowersOfTwo) {
  for (std::size_t bytes = 0; bytes < (1 << 20); bytes = bytes * 5 / 4 + 1) {
    const std::size_t stands_for = size_class(bytes);
    EXPECT_LE(stands_for, bytes);
    EXPECT_GE(stands_for * 5 / 4 + 1, bytes);
    EXPECT_EQ(size_class(stands_for), stands_for);
  }
  for (int bit = 0; bit < 63; ++bit)
    EXPECT_EQ(size_class(std::size_t{1} << bit), std::size_t{1} << bit);
}

}  // namespace
}  // namespace paceline::collective
