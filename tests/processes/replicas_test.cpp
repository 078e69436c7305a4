// Tables of which several servers keep each range, as processes: servers are killed, and no push is
// lost or counts twice. Covers paceline/core/server/served_chains.h.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "paceline/core/base/seed.h"
#include "tests/core/server/machine/quadratic_world.h"
#include "tests/processes/replicated_run.h"
#include "tests/support/launched.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"
#include "tests/support/training_run.h"

namespace paceline::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint64_t kTableSeed = 7;  // as in table_worker.cpp

TEST(Replicas, WithoutKillsHaveTheBitsOfOneLoop) {
  for (const int replicas : {2, 3})
    for (const std::string& transport : transports()) {
      const auto result = run(paceline_run(with_servers(3, replicas, {"--transport", transport}),
                                           {binary("table_worker"), "train:5"}));
      EXPECT_EQ(result.exit_code, 0) << transport << result.error;
      EXPECT_EQ(
          told_by_all(result.output, "values", kTableWorkers),
          fmt::format(
              "{:a}",
              fmt::join(QuadraticWorld::serial<double>(kTableSeed, kTableWorkers, 5, 0.125), " ")))
          << transport;
      EXPECT_THAT(result.error, HasSubstr("there are not enough hosts for others\n"));
      EXPECT_EQ(lines_of(result.error).size(), 1U) << "it is told once, and nothing else";
    }
}

TEST(Replicas, BspHasTheBitsOfTheRunWithoutFaultsWhicheverServersAreKilled) {
  constexpr int kSteps = 3'000;
  const int kills = is_nightly() ? 100 : 3;
  for (const int replicas : {2, 3}) {
    SeededNumbers numbers(seed(3560000 + static_cast<std::uint64_t>(replicas)));
    const int steps = is_nightly() ? 8 * kSteps : kSteps;
    ReplicatedRun run(fmt::format("paced:{}", steps),
                      with_servers(3, replicas, {"--server-restarts", "200"}), 3);
    ASSERT_NE(run.job, "");
    for (int i = 0; i < kills; ++i) run.kill_and_wait(numbers);
    EXPECT_GE(run.kills(), 1) << run.launcher.error();
    EXPECT_EQ(run.end(), 0) << run.launcher.error();
    EXPECT_EQ(told_by_all(run.launcher.output(), "values", kTableWorkers),
              fmt::format("{:a}", fmt::join(QuadraticWorld::serial<double>(
                                                kTableSeed, kTableWorkers, steps, 0.125),
                                            " ")));
    EXPECT_LE(longest_pause(run.launcher.output()), 2'000);
    EXPECT_LE(run.slowest(), 5s);
    std::cout << "replicas " << replicas << ", " << run.kills() << " kills: longest pause "
              << longest_pause(run.launcher.output()) << " ms, ready again within "
              << std::chrono::duration_cast<std::chrono::milliseconds>(run.slowest()).count()
              << " ms\n";
    EXPECT_THAT(run.left(), IsEmpty());
  }
}

TEST(Replicas, EachPushCountsOnceWhicheverServersAreKilled) {
  const int steps = is_nightly() ? 20'000 : 1'500, kills = is_nightly() ? 100 : 3;
  for (const char* const behaviour : {"marks", "late_marks"}) {
    SCOPED_TRACE(behaviour);
    SeededNumbers numbers(seed(3570000));
    ReplicatedRun run(fmt::format("{}:{}", behaviour, steps),
                      with_servers(3, 2, {"--server-restarts", "200"}), 3);
    ASSERT_NE(run.job, "");
    for (int i = 0; i < kills; ++i) run.kill_and_wait(numbers);
    EXPECT_GE(run.kills(), 1) << run.launcher.error();
    EXPECT_EQ(run.end(), 0) << run.launcher.error();
    const std::vector<int> marks(8 * kTableWorkers, steps);
    EXPECT_EQ(told_by_all(run.launcher.output(), "marks", kTableWorkers),
              fmt::format("{}", fmt::join(marks, " ")));
    EXPECT_LE(longest_pause(run.launcher.output()), 2'000);
    EXPECT_THAT(run.left(), IsEmpty());
  }
}

// Workers declare the second table to servers that were not there at the beginning.
TEST(Replicas, ATableIsMadeThoughAllServersOfTheBeginningHaveBeenKilled) {
  constexpr int kSteps = 2'000;
  ReplicatedRun run(fmt::format("twice:{}", kSteps), with_servers(3, 2), 3);
  ASSERT_NE(run.job, "");
  for (int first = 0; first < 3; ++first) run.kill_and_wait(first);
  EXPECT_EQ(run.kills(), 3) << run.launcher.error();
  EXPECT_EQ(run.end(), 0) << run.launcher.output() << run.launcher.error();
  for (const auto& [word, steps] : {std::pair("values", kSteps), std::pair("again", 5)})
    EXPECT_EQ(told_by_all(run.launcher.output(), word, kTableWorkers),
              fmt::format("{:a}", fmt::join(QuadraticWorld::serial<double>(
                                                kTableSeed, kTableWorkers, steps, 0.125),
                                            " ")));
  EXPECT_THAT(run.left(), IsEmpty());
}

// Its own process is there long before it has a copy of the ranges.
TEST(Replicas, ANewcomerThatIsKilledBeforeItIsReadyCostsNothing) {
  constexpr int kSteps = 3'000;
  ReplicatedRun run(fmt::format("paced:{}", kSteps),
                    with_servers(3, 2, {"--server-restarts", "100"}), 3);
  ASSERT_NE(run.job, "");
  ::kill(run.servers().at(1), SIGKILL);
  for (int newcomer = 3; newcomer < 6; ++newcomer) {
    pid_t pid = 0;
    for (const Deadline deadline = Deadline::in(10s); pid == 0 && !deadline.passed();)
      if (const auto all = run.servers(); all.contains(newcomer)) pid = all.at(newcomer);
    ASSERT_NE(pid, 0) << run.launcher.error();
    ::kill(pid, SIGKILL);
  }
  EXPECT_TRUE(run.launcher.wait_for_error("server 6 is ready\n", Deadline::in(10s)))
      << run.launcher.error();
  EXPECT_EQ(run.end(), 0) << run.launcher.error();
  EXPECT_EQ(told_by_all(run.launcher.output(), "values", kTableWorkers),
            fmt::format("{:a}", fmt::join(QuadraticWorld::serial<double>(kTableSeed, kTableWorkers,
                                                                         kSteps, 0.125),
                                          " ")));
  EXPECT_THAT(run.left(), IsEmpty());
}

TEST(Replicas, ASaveAfterSigtermOutlivesAServerThatIsKilledInIt) {
  for (int round = 0; round < (is_nightly() ? 20 : 2); ++round) {
    ReplicatedRun run("save", with_servers(3, 2), 3);
    ASSERT_NE(run.job, "");
    const auto servers = run.servers();
    ASSERT_EQ(servers.size(), 3U);
    run.launcher.send(SIGTERM);
    ::kill(servers.at(round % 3), SIGKILL);
    EXPECT_EQ(run.end(), 143) << run.launcher.output() << run.launcher.error();
    for (int rank = 0; rank < kTableWorkers; ++rank)
      EXPECT_THAT(run.launcher.output(), HasSubstr(fmt::format("[{}] saved", rank)));
    EXPECT_THAT(run.left(), IsEmpty());
  }
}

TEST(Replicas, WhereAllOfARangeAreKilledEveryWorkerNamesTheTableAndTheServers) {
  ReplicatedRun run("stream", with_servers(3, 2), 3);
  ASSERT_NE(run.job, "");
  const auto servers = run.servers();
  ASSERT_EQ(servers.size(), 3U);
  const auto begin = Clock::now();
  ::kill(servers.at(0), SIGKILL);
  ::kill(servers.at(1), SIGKILL);
  EXPECT_EQ(exit_code(run.launcher.wait(Deadline::in(10s))), 137);
  EXPECT_LT(Clock::now() - begin, 2s);
  for (int rank = 0; rank < kTableWorkers; ++rank)
    EXPECT_THAT(run.launcher.output(), HasSubstr(fmt::format("[{}] failed peer lost: ", rank)));
  EXPECT_THAT(run.launcher.output(), AllOf(HasSubstr("of table 'w': server ")));
  EXPECT_THAT(run.launcher.error(), HasSubstr("nobody has the part of the tables"));
  EXPECT_THAT(run.left(), IsEmpty());
}

}  // namespace
}  // namespace paceline::test
