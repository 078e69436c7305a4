// Sparse tables of which several servers keep each share, as processes: servers are killed, and no
// push is lost or counts twice.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/server/sparse/sparse_world.h"
#include "tests/processes/replicated_run.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

SparseWork sparse_work_of(int steps) {
  return {.seed = 7, .workers = kTableWorkers, .steps = steps};  // as in sparse_worker.cpp
}

// The rows of all ids after so many steps in one loop over a dense table.
std::string dense_values(int steps) {
  const SparseWork work = sparse_work_of(steps);
  const auto shape =
      server::shape_of(
          server::SparseTableSpec{
              .name = "u", .width = work.width, .dtype = Dtype::f64, .rule = "adagrad:rate=0.1"},
          server::TableMembers::of_servers(kTableWorkers, 3))
          .value();
  return fmt::format("{:a}", fmt::join(work.dense<double>(shape), " "));
}

std::vector<std::string> three_servers(int replicas) {
  return with_servers(3, replicas, {"--server-restarts", "100"});
}

TEST(SparseReplicas, BspHasTheBitsOfOneServerWhicheverServersAreKilled) {
  const int kills = is_nightly() ? 20 : 3, steps = is_nightly() ? 16'000 : 1'200;
  for (const int replicas : {1, 2, 3}) {
    SeededNumbers numbers(seed(3720000 + static_cast<std::uint64_t>(replicas)));
    ReplicatedRun run(fmt::format("paced:{}", replicas == 1 ? 50 : steps),
                      replicas == 1 ? with_servers(3, 1) : three_servers(replicas), 3,
                      "sparse_worker");
    ASSERT_NE(run.job, "");
    for (int i = 0; i < kills && replicas > 1; ++i) run.kill_and_wait(numbers);
    EXPECT_GE(run.kills(), replicas > 1 ? 1 : 0) << run.launcher.error();
    EXPECT_EQ(run.end(), 0) << run.launcher.output() << run.launcher.error();
    EXPECT_EQ(told_by_all(run.launcher.output(), "values", kTableWorkers),
              dense_values(replicas == 1 ? 50 : steps));
    EXPECT_LE(longest_pause(run.launcher.output()), 2'000);
    EXPECT_LE(run.slowest(), 5s);
    std::cout << "replicas " << replicas << ", " << run.kills() << " kills: longest pause "
              << longest_pause(run.launcher.output()) << " ms, ready again within "
              << std::chrono::duration_cast<std::chrono::milliseconds>(run.slowest()).count()
              << " ms\n";
    EXPECT_THAT(run.left(), IsEmpty());
  }
}

void expect_each_push_counts_once(const std::string& behaviour, std::uint64_t of_seed) {
  const int steps = is_nightly() ? 16'000 : 1'200, kills = is_nightly() ? 20 : 3;
  SeededNumbers numbers(of_seed);
  ReplicatedRun run(fmt::format("{}:{}", behaviour, steps), three_servers(2), 3, "sparse_worker");
  ASSERT_NE(run.job, "");
  for (int i = 0; i < kills; ++i) run.kill_and_wait(numbers);
  EXPECT_GE(run.kills(), 1) << run.launcher.error();
  EXPECT_EQ(run.end(), 0) << run.launcher.output() << run.launcher.error();
  EXPECT_EQ(told_by_all(run.launcher.output(), "marks", kTableWorkers),
            fmt::format("{}", fmt::join(sparse_work_of(steps).pushed_by_all(), " ")));
  EXPECT_LE(longest_pause(run.launcher.output()), 2'000);
  EXPECT_THAT(run.left(), IsEmpty());
}

TEST(SparseReplicas, UnderAspEachPushCountsOnceWhicheverServersAreKilled) {
  expect_each_push_counts_once("marks", seed(3730000));
}

TEST(SparseReplicas, UnderSspEachPushCountsOnceWhicheverServersAreKilled) {
  expect_each_push_counts_once("bounded", seed(4160000));
}

TEST(SparseReplicas, RowsAreSavedAndPutBackWhicheverServersAreKilled) {
  SeededNumbers numbers(seed(3740000));
  ReplicatedRun run(fmt::format("saves:{}", is_nightly() ? 2'000 : 300), three_servers(2), 3,
                    "sparse_worker");
  ASSERT_NE(run.job, "");
  for (int i = 0; i < (is_nightly() ? 10 : 2); ++i) run.kill_and_wait(numbers);
  EXPECT_EQ(run.end(), 0) << run.launcher.output() << run.launcher.error();
  EXPECT_EQ(told_by_all(run.launcher.output(), "values", kTableWorkers), dense_values(8));
  EXPECT_THAT(run.left(), IsEmpty());
}

TEST(SparseReplicas, WhereAllOfAShareAreKilledEveryWorkerNamesTheTableAndTheServers) {
  ReplicatedRun run("stream", with_servers(3, 2), 3, "sparse_worker");
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
  EXPECT_THAT(run.launcher.output(), HasSubstr("of sparse table 'u': server "));
  EXPECT_THAT(run.launcher.error(), HasSubstr("nobody has the part of the tables"));
  EXPECT_THAT(run.left(), IsEmpty());
}

}  // namespace
}  // namespace paceline::test
