#include "paceline/core/transport/memory/available_memory.h"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>

#include "tests/support/temporary_folder.h"

namespace paceline::transport {
namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20;

// A tree of files as Linux has them, of a machine with 1000 MiB.
class MemoryBounds : public ::testing::Test {
 protected:
  MemoryBounds() { write("proc/meminfo", "MemTotal: 2048000 kB\nMemAvailable: 1024000 kB"); }

  void write(const std::string& file, const std::string& text) {
    const auto path = folder_.path() / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
  void expect(std::size_t mebibytes, const std::string& limit) const {
    const MemoryBound bound = memory_bound(folder_.path());
    EXPECT_EQ(bound.bytes, mebibytes * kMebibyte);
    EXPECT_EQ(bound.limit, limit.empty() ? "" : (folder_.path() / limit).lexically_normal());
  }

  const test::TemporaryFolder folder_;
};

TEST_F(MemoryBounds, AreTheMachinesWhereNoGroupLimitsMemory) {
  EXPECT_EQ(available_memory(folder_.path()), 1000 * kMebibyte);
  expect(1000, "");
  EXPECT_EQ(memory_bound(folder_.path()).text(), "1000 MiB of memory are available");
  EXPECT_EQ(available_memory(folder_.path() / "nowhere"), std::numeric_limits<std::size_t>::max());
}

TEST_F(MemoryBounds, AreTheLeastLimitOfTheProcesssGroupAndOfThoseAboveIt) {
  write("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw");
  write("proc/self/cgroup", "0::/pod/worker");
  write("sys/fs/cgroup/pod/worker/memory.max", "max");
  expect(1000, "");
  write("sys/fs/cgroup/pod/memory.max", "104857600");
  expect(100, "sys/fs/cgroup/pod/memory.max");
  EXPECT_EQ(memory_bound(folder_.path()).text(),
            (folder_.path() / "sys/fs/cgroup/pod/memory.max").string() + " lets it have 100 MiB");
  write("sys/fs/cgroup/pod/worker/memory.max", "2097152");
  expect(2, "sys/fs/cgroup/pod/worker/memory.max");
  write("sys/fs/cgroup/other/memory.max", "1048576");
  expect(2, "sys/fs/cgroup/pod/worker/memory.max");
  write("sys/fs/cgroup/pod/worker/memory.max", "9000000000");
  write("sys/fs/cgroup/pod/memory.max", "8000000000");
  expect(1000, "");
}

TEST_F(MemoryBounds, AreThoseOfVersion1Too) {
  write("proc/self/mountinfo",
        "33 30 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "34 30 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu");
  write("proc/self/cgroup", "5:memory:/job/task\n4:cpu:/other");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  write("sys/fs/cgroup/memory/job/task/memory.limit_in_bytes", "9223372036854771712");
  write("sys/fs/cgroup/cpu/other/memory.limit_in_bytes", "1048576");
  expect(1000, "");
  write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "52428800");
  expect(50, "sys/fs/cgroup/memory/job/memory.limit_in_bytes");
}

TEST_F(MemoryBounds, AreTheMachinesWhereFilesHoldNonsense) {
  write("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw");
  write("proc/self/cgroup", "0::/");
  for (const auto* text : {"", "max", "nonsense", "18446744073709551616"}) {
    write("sys/fs/cgroup/memory.max", text);
    expect(1000, "");
  }
  write("sys/fs/cgroup/memory.max", "1048576");
  expect(1, "sys/fs/cgroup/memory.max");
}

}  // namespace
}  // namespace paceline::transport
