#include "paceline/core/transport/memory/status_page.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

namespace paceline::transport {
namespace {

// The path under /proc of this process's newest page.
std::string own_page() {
  std::string found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const auto target = std::filesystem::read_symlink(entry.path(), error);
    if (target == fmt::format("/memfd:{} (deleted)", StatusPage::kName)) found = entry.path();
  }
  return found;
}

TEST(StatusPage, ShowsWhatWasToldLast) {
  StatusPage page;
  page.join("job-7", 3, 1, 4);
  page.operation_began();
  page.operation_began();
  page.operation_ended();
  page.wait_began("all_reduce f32[10]");
  page.report(12, 480, 0.5);
  page.has_device("cuda:1");
  auto status = read_status(own_page().c_str());
  ASSERT_TRUE(status);
  EXPECT_STREQ(status->job.data(), "job-7");
  EXPECT_EQ(status->generation, 3U);
  EXPECT_EQ(status->rank, 1);
  EXPECT_EQ(status->world_size, 4);
  EXPECT_EQ(status->operations, 1);
  EXPECT_EQ(status->in_flight, 1);
  EXPECT_NE(status->waiting_since_ns, 0);
  EXPECT_STREQ(status->waits_for.data(), "all_reduce f32[10]");
  EXPECT_EQ(status->step, 12);
  EXPECT_STREQ(status->device.data(), "cuda:1");
  page.wait_ended(5);
  status = read_status(own_page().c_str());
  ASSERT_TRUE(status);
  EXPECT_EQ(status->waiting_since_ns, 0);
  EXPECT_EQ(status->waited_ns, 5);
}

TEST(StatusPage, LongTextsAreCutAndTheFirstOfSeveralWaitsIsShown) {
  StatusPage page;
  page.join(std::string(1000, 'j'), 1, 0, 1);
  page.wait_began(std::string(1000, 'a'));
  page.wait_began("second");
  page.wait_ended(1);
  const auto status = read_status(own_page().c_str());
  ASSERT_TRUE(status);
  EXPECT_EQ(std::string(status->job.data()), std::string(63, 'j'));
  EXPECT_EQ(std::string(status->waits_for.data()), std::string(191, 'a'));
  EXPECT_NE(status->waiting_since_ns, 0) << "one still waits";
}

TEST(StatusPage, AReaderNeverSeesHalfAChange) {
  StatusPage page;
  page.join("job", 1, 0, 1);
  std::atomic<bool> stop = false;
  std::vector<std::thread> writers;
  for (int t = 0; t < 2; ++t) {
    writers.emplace_back([&] {
      for (int step = 0; !stop; ++step) {
        const int letter = step % 26;
        page.join(std::string(63, static_cast<char>('a' + letter)), 1, letter, 1);
      }
    });
  }
  const std::string path = own_page();
  int seen = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto status = read_status(path.c_str());
    if (!status || std::string_view(status->job.data()) == "job") continue;
    ++seen;
    const std::string whole(63, static_cast<char>('a' + status->rank));
    if (status->job.data() != whole) {
      ADD_FAILURE() << status->job.data() << " of " << status->rank;
      break;
    }
  }
  stop = true;
  for (auto& writer : writers) writer.join();
  EXPECT_GT(seen, 0);
}

TEST(StatusPage, WhatIsNoPageIsNotRead) {
  const std::string path = ::testing::TempDir() + "paceline_no_page";
  EXPECT_FALSE(read_status(path.c_str()));
  for (const std::size_t size : {std::size_t{0}, std::size_t{8}, std::size_t{1} << 16}) {
    std::ofstream(path) << std::string(size, 'x');
    EXPECT_FALSE(read_status(path.c_str())) << size;
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace paceline::transport
