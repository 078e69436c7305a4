#include "paceline/core/base/processor_pools.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "paceline/core/base/seed.h"
#include "tests/support/seed.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;

Processors on(const std::string& machine, const std::vector<int>& processors,
              const ProcessorQuota& quota = {}) {
  Processors own{.machine = machine, .allowed = {}, .quota = quota};
  for (const int processor : processors) own.allowed.insert(processor);
  return own;
}

ProcessorPool pool(std::vector<int> ranks, double processors) {
  return {std::move(ranks), processors};
}

TEST(ProcessorPools, RanksOfOneMachineShareItWhateverTheirHosts) {
  const auto pools = pools_of(std::vector(4, on("a", {0, 1})));
  EXPECT_THAT(pools, ElementsAre(pool({0, 1, 2, 3}, 2)));
  EXPECT_TRUE(pools[0].is_crowded());
  EXPECT_FALSE(pools_of(std::vector(2, on("a", {0, 1})))[0].is_crowded());
}

TEST(ProcessorPools, MachinesShareNothingThoughTheyNumberTheirProcessorsAlike) {
  EXPECT_THAT(pools_of(std::vector{on("a", {0, 1}), on("b", {0, 1}), on("a", {0, 1})}),
              ElementsAre(pool({0, 2}, 2), pool({1}, 2)));
}

TEST(ProcessorPools, RanksThatAreKeptApartShareNothing) {
  EXPECT_THAT(pools_of(std::vector{on("a", {0}), on("a", {0}), on("a", {1}), on("a", {1})}),
              ElementsAre(pool({0, 1}, 1), pool({2, 3}, 1)));
}

TEST(ProcessorPools, ARankPinnedToOneOfTwoProcessorsSharesThemWithThoseThatMayUseBoth) {
  EXPECT_THAT(pools_of(std::vector{on("a", {0}), on("a", {1}), on("a", {0, 1})}),
              ElementsAre(pool({0, 1, 2}, 2)));
}

TEST(ProcessorPools, AQuotaIsSharedByItsGroupAndAddsUpOverGroups) {
  const ProcessorQuota one{1.5, 7}, other{1, 8};
  EXPECT_THAT(pools_of(std::vector(2, on("a", {0, 1, 2, 3}, one))), ElementsAre(pool({0, 1}, 1.5)));
  EXPECT_THAT(pools_of(std::vector{on("a", {0, 1, 2, 3}, one), on("a", {0, 1, 2, 3}, other)}),
              ElementsAre(pool({0, 1}, 2.5)));
  EXPECT_THAT(pools_of(std::vector{on("a", {0, 1}, one), on("a", {0, 1})}),
              ElementsAre(pool({0, 1}, 2)));
  EXPECT_THAT(pools_of(std::vector{on("a", {0}, one), on("a", {1}, one)}),
              ElementsAre(pool({0, 1}, 1.5)));
  EXPECT_THAT(pools_of(std::vector{on("a", {0}, one), on("b", {1}, one)}),
              ElementsAre(pool({0}, 1), pool({1}, 1)));
}

TEST(ProcessorPools, HaveEachRankOnceAndTheUnionOfItsProcessors) {
  SeededNumbers numbers(test::seed(11));
  for (int round = 0; round < 500; ++round) {
    std::vector<Processors> ranks(1 + numbers.below(12));
    for (Processors& own : ranks) {
      own = on(numbers.below(2) == 0 ? "a" : "b", {static_cast<int>(numbers.below(6))});
      if (numbers.below(3) == 0) own.allowed.insert(static_cast<int>(numbers.below(130)));
    }
    std::set<int> seen;
    std::vector<int> firsts;
    std::vector<int> pool_of(ranks.size());
    const auto pools = pools_of(ranks);
    for (std::size_t p = 0; p < pools.size(); ++p) {
      ProcessorSet all;
      firsts.push_back(pools[p].ranks.front());
      EXPECT_TRUE(std::ranges::is_sorted(pools[p].ranks));
      for (const int rank : pools[p].ranks) {
        EXPECT_TRUE(seen.insert(rank).second);
        pool_of[static_cast<std::size_t>(rank)] = static_cast<int>(p);
        all.insert(ranks[static_cast<std::size_t>(rank)].allowed);
      }
      EXPECT_EQ(pools[p].processors, all.count());
    }
    EXPECT_EQ(seen.size(), ranks.size());
    EXPECT_TRUE(std::ranges::is_sorted(firsts));
    for (std::size_t one = 0; one < ranks.size(); ++one) {
      for (std::size_t other = 0; other < one; ++other) {
        const bool meet = ranks[one].machine == ranks[other].machine &&
                          ranks[one].allowed.meets(ranks[other].allowed);
        EXPECT_TRUE(!meet || pool_of[one] == pool_of[other]) << "round " << round;
      }
    }
  }
}

TEST(ProcessorPools, HaveOneCoreAtLeastAndWholeOnes) {
  EXPECT_EQ(pool({0}, 0.5).cores(), 1);
  EXPECT_TRUE(pool({0}, 0.5).is_crowded());
  EXPECT_EQ(pool({0, 1}, 1.5).cores(), 1);
  EXPECT_EQ(pool({0, 1}, 2.9).cores(), 2);
}

}  // namespace
}  // namespace paceline
