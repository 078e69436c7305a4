// Also covers paceline/core/base/control_groups.h.
#include "paceline/core/base/processors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <fstream>
#include <set>
#include <thread>

#include "paceline/core/base/seed.h"
#include "tests/support/seed.h"
#include "tests/support/temporary_folder.h"

namespace paceline {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

ProcessorSet set_of(const std::vector<int>& processors) {
  ProcessorSet set;
  for (const int processor : processors) set.insert(processor);
  return set;
}

TEST(ProcessorSet, CountsEachProcessorOnce) {
  EXPECT_EQ(ProcessorSet().count(), 0);
  EXPECT_EQ(set_of({0, 63, 64, 64, 8191}).count(), 4);
  EXPECT_EQ(set_of({8191}).words.size(), ProcessorSet::kMostWords);
}

TEST(ProcessorSet, AUnionHasTheProcessorsOfBothAndNoOthers) {
  for (const int shift : {0, 1, 63, 64, 200}) {
    ProcessorSet both = set_of({0, 1, 2});
    both.insert(set_of({2 + shift, 3 + shift}));
    EXPECT_EQ(both.count(), shift == 0 ? 4 : 5) << shift;
    for (const int one : {0, 1, 2, 2 + shift, 3 + shift}) EXPECT_TRUE(both.meets(set_of({one})));
    EXPECT_FALSE(both.meets(set_of({4 + shift})));
  }
}

TEST(ProcessorSet, MeetsAnotherWhereSomeProcessorIsInBoth) {
  EXPECT_TRUE(set_of({0, 100}).meets(set_of({100, 1})));
  EXPECT_FALSE(set_of({0, 100}).meets(set_of({1, 101})));
  EXPECT_FALSE(set_of({500}).meets(set_of({5})));
  EXPECT_FALSE(ProcessorSet().meets(set_of({0})));
}

TEST(Processors, AreInTheHostThatTheKernelNames) {
  std::ifstream file("/proc/sys/kernel/hostname");
  std::string expected;
  std::getline(file, expected);
  EXPECT_EQ(host_name(), expected);
}

TEST(Processors, AreThoseThatTheThreadMayRunOn) {
  const Processors all = own_processors();
  EXPECT_FALSE(all.machine.empty());
  cpu_set_t mask;
  ASSERT_EQ(::sched_getaffinity(0, sizeof mask, &mask), 0);
  EXPECT_EQ(all.allowed.count(), CPU_COUNT(&mask));
  int last = CPU_SETSIZE - 1;
  while (!CPU_ISSET(last, &mask)) --last;
  std::jthread([&] {
    CPU_ZERO(&mask);
    CPU_SET(last, &mask);
    ASSERT_EQ(::sched_setaffinity(0, sizeof mask, &mask), 0);
    const Processors one = own_processors();
    EXPECT_EQ(one.allowed.count(), 1);
    EXPECT_TRUE(one.allowed.meets(set_of({last})));
    EXPECT_EQ(one.machine, all.machine);
  });
}

TEST(Processors, CountAsWholeOnesWithinTheQuotaAndOneAtLeast) {
  const auto count = [](double quota) {
    return Processors{"here", set_of({0, 1, 2, 3}), {quota, 7}}.count();
  };
  EXPECT_EQ(count(kNone), 4);
  EXPECT_EQ(count(8), 4);
  EXPECT_EQ(count(2.9), 2);
  EXPECT_EQ(count(0.1), 1);
}

// A tree of files as Linux has them.
class ControlGroups : public ::testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) {
    const auto path = folder_.path() / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
  double quota() const { return processor_quota(folder_.path()).processors; }

  const test::TemporaryFolder folder_;
};

constexpr auto* kUnified = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw";

TEST_F(ControlGroups, ThatAreNotThereHaveNoQuota) {
  EXPECT_EQ(quota(), kNone);
  EXPECT_EQ(processor_quota(folder_.path()).group, 0U);
}

TEST_F(ControlGroups, GiveTheLeastQuotaOfThisOneAndAllAbove) {
  write("proc/self/mountinfo", std::string("22 1 0:2 / /proc rw - proc proc rw\n") + kUnified);
  write("proc/self/cgroup", "0::/pod/worker");
  write("sys/fs/cgroup/pod/worker/cpu.max", "max 100000");
  EXPECT_EQ(quota(), kNone);
  write("sys/fs/cgroup/pod/cpu.max", "150000 100000");
  EXPECT_EQ(quota(), 1.5);
  const auto of_pod = processor_quota(folder_.path()).group;
  write("sys/fs/cgroup/pod/worker/cpu.max", "300000 100000");
  EXPECT_EQ(quota(), 1.5);
  EXPECT_EQ(processor_quota(folder_.path()).group, of_pod);
  write("sys/fs/cgroup/pod/worker/cpu.max", "50000 100000");
  EXPECT_EQ(quota(), 0.5);
  EXPECT_NE(processor_quota(folder_.path()).group, of_pod);
  write("sys/fs/cgroup/other/cpu.max", "1000 100000");
  EXPECT_EQ(quota(), 0.5);
}

TEST_F(ControlGroups, OfVersion1GiveTheirQuotasToo) {
  write("proc/self/mountinfo",
        "33 30 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "34 30 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct");
  write("proc/self/cgroup", "5:memory:/\n4:cpu,cpuacct:/job\n0::/");
  write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1");
  write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000");
  EXPECT_EQ(quota(), kNone);
  write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "250000");
  EXPECT_EQ(quota(), 2.5);
}

TEST_F(ControlGroups, AreFoundWhereAContainerSeesOnlyItsOwn) {
  write("proc/self/mountinfo", "34 30 0:26 /docker/a /sys/fs/cgroup ro - cgroup2 cgroup rw");
  write("sys/fs/cgroup/cpu.max", "200000 100000");
  for (const auto* group : {"0::/docker/a", "0::/docker/a/inner", "0::/elsewhere", "nonsense"}) {
    write("proc/self/cgroup", group);
    EXPECT_EQ(quota(), 2) << group;
  }
  write("sys/fs/cgroup/inner/cpu.max", "100000 100000");
  write("proc/self/cgroup", "0::/docker/a/inner");
  EXPECT_EQ(quota(), 1);
}

TEST_F(ControlGroups, OfNonsenseHaveNoQuota) {
  write("proc/self/mountinfo",
        std::string("- cgroup2\n \n1 2 - - - - - - - - cgroup2\n") + kUnified);
  write("proc/self/cgroup", "::\n0::");
  for (const auto* text : {"", "nonsense", "0 100000", "-5 100000", "100000 0", "100000"}) {
    write("sys/fs/cgroup/cpu.max", text);
    EXPECT_EQ(quota(), kNone) << text;
  }
}

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
