// Iterations of L-BFGS whose vectors lie on servers, by processes. Runs lbfgs_worker and
// fashion_mnist.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <fstream>

#include <nlohmann/json.hpp>

#include "tests/support/launched.h"
#include "tests/support/nightly.h"
#include "tests/support/temporary_folder.h"

namespace paceline::test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ProcessOptions run_lbfgs(int workers, int servers, const std::vector<std::string>& behaviours,
                         const std::vector<std::string>& options = {}) {
  std::vector<std::string> all = {"-n", std::to_string(workers), "--servers",
                                  std::to_string(servers)};
  all.insert(all.end(), options.begin(), options.end());
  std::vector<std::string> command = {binary("lbfgs_worker")};
  command.insert(command.end(), behaviours.begin(), behaviours.end());
  return paceline_run(all, command);
}

TEST(SandblasterProcesses, HaveTheSameBitsOnAnyTransportByAnyNumberOfWorkers) {
  std::string expected;
  for (const std::string& transport : transports()) {
    for (const int workers : {1, 3}) {
      const auto result = run(run_lbfgs(workers, 2, {"train:8"}, {"--transport", transport}));
      EXPECT_EQ(result.exit_code, 0) << transport << result.error;
      EXPECT_EQ(result.error, "");
      const std::string path = told_by_all(result.output, "path", workers);
      if (expected.empty()) expected = path;
      EXPECT_EQ(path, expected) << transport << ", " << workers << " workers";
    }
  }
}

// Nothing waits for one that ends early, but for rank 0, which leads.
TEST(SandblasterProcesses, AWorkerThatEndsEarlyChangesNothing) {
  const auto all = run(run_lbfgs(3, 2, {"train:8"})),
             two = run(run_lbfgs(3, 2, {"1=train:3", "train:8"}));
  EXPECT_EQ(two.exit_code, 0) << two.error;
  const std::string path = told_by_all(all.output, "path", 3);
  EXPECT_THAT(two.output, HasSubstr("[0] path " + path + "\n"));
  EXPECT_THAT(two.output, HasSubstr("[2] path " + path + "\n"));
  const auto leader = run(run_lbfgs(2, 1, {"0=train:3", "train:8"}));
  EXPECT_EQ(leader.exit_code, 1);
  EXPECT_THAT(leader.output,
              HasSubstr("'sandblaster': rank 0, which leads the iterations, has ended its part"));
}

TEST(SandblasterProcesses, AKilledServerIsNamedToEveryWorkerAndEndsTheRun) {
  Process launcher(run_lbfgs(3, 2, {"stream"}));
  const auto pids = ready(launcher, 3);
  ASSERT_EQ(pids.size(), 3U) << launcher.error();
  const std::string job = variable_of(pids[0], "PACELINE_JOB");
  std::vector<pid_t> others = {pids[0], pids[1], pids[2]};
  pid_t victim = 0;
  for (const pid_t pid : processes_of_job(job)) {
    const std::string index = variable_of(pid, "PACELINE_SERVER_INDEX");
    if (index == "1") victim = pid;
    else if (!index.empty()) others.push_back(pid);
  }
  ASSERT_GT(victim, 0);
  const auto begin = Clock::now();
  ::kill(victim, SIGKILL);
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(5s))), 137);
  EXPECT_LT(Clock::now() - begin, 2s);
  for (const char* rank : {"\\[0]", "\\[1]", "\\[2]"})
    EXPECT_THAT(launcher.output(),
                ::testing::ContainsRegex(fmt::format("{} failed peer lost: .*server 1 ", rank)));
  EXPECT_THAT(left_overs(job, others, Deadline::in(0s)), IsEmpty());
}

#ifdef PACELINE_WITH_TORCH
std::vector<std::string> sandblaster(const std::vector<std::string>& more) {
  std::vector<std::string> command = {
      binary("fashion_mnist"), "--optimizer", "sandblaster", "--model", "linear", "--threads", "1"};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

std::vector<json> metrics_of(int workers, int servers, const std::vector<std::string>& more) {
  const TemporaryFolder folder;
  const std::string metrics = folder.file("metrics.jsonl");
  std::vector<std::string> all = {"--metrics", metrics};
  all.insert(all.end(), more.begin(), more.end());
  const auto finished = run(paceline_run(
      {"-n", std::to_string(workers), "--servers", std::to_string(servers)}, sandblaster(all)));
  EXPECT_EQ(finished.exit_code, 0) << finished.error;
  std::vector<json> told;
  std::ifstream lines(metrics);
  for (std::string line; std::getline(lines, line);) told.push_back(json::parse(line));
  return told;
}

TEST(SandblasterProcesses, TheLossFallsInEachIterationOnAllImages) {
  const int iterations = is_nightly() ? 30 : 4;
  const auto told = metrics_of(2, 2, {"--steps", std::to_string(iterations)});
  std::vector<double> losses;
  for (const json& line : told)
    if (line.at("event") == "step") losses.push_back(line.at("loss_of_rank_0"));
  EXPECT_EQ(losses.size(), static_cast<std::size_t>(iterations));
  EXPECT_EQ(std::ranges::adjacent_find(losses, std::ranges::less_equal()), losses.end())
      << ::testing::PrintToString(losses);
  ASSERT_FALSE(told.empty());
  EXPECT_GE(told.back().at("test_accuracy").get<double>(), is_nightly() ? 0.8 : 0.6);
}

TEST(SandblasterProcesses, HaveTheSameBitsForAnyNumberOfWorkers) {
  const std::vector<std::string> options = {"--steps",       "2",   "--dtype",   "float64",
                                            "--test-images", "100", "--portion", "2000"};
  const auto alone = metrics_of(1, 2, options), three = metrics_of(3, 2, options);
  ASSERT_FALSE(alone.empty() || three.empty());
  EXPECT_EQ(alone.back().at("parameters_sha256"), three.back().at("parameters_sha256"));
}

TEST(SandblasterProcesses, RefuseByNameWhatDoesNotGoWithThem) {
  const auto refusal = [](const std::vector<std::string>& options,
                          const std::vector<std::string>& servers) {
    std::vector<std::string> all = {"-n", "2"};
    all.insert(all.end(), servers.begin(), servers.end());
    const auto finished = run(paceline_run(all, sandblaster(options)));
    EXPECT_EQ(finished.exit_code, 2);
    return finished.error;
  };
  EXPECT_THAT(refusal({"--compression", "fp16"}, {"--servers", "1"}),
              AllOf(HasSubstr("sandblaster"), HasSubstr("--compression fp16")));
  EXPECT_THAT(refusal({"--checkpoint-dir", "x"}, {"--servers", "1"}),
              HasSubstr("takes no --checkpoint-dir"));
  EXPECT_THAT(refusal({"--portion", "0"}, {"--servers", "1"}),
              HasSubstr("a portion has 0 samples"));
  EXPECT_THAT(refusal({}, {}), HasSubstr("start it with `paceline run --servers N`"));
}
#endif

}  // namespace
}  // namespace paceline::test
