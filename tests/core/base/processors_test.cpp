#include "paceline/core/base/processors.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <fstream>
#include <thread>

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

}  // namespace
}  // namespace paceline
