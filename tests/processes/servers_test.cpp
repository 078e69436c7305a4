// Servers as processes: what they keep for the workers, and how they end
// (covers paceline/app/launch/run/run_job.h).
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <numbers>
#include <thread>

#include "tests/core/server/machine/quadratic_world.h"
#include "tests/support/launched.h"
#include "tests/support/nightly.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/training_run.h"

namespace paceline::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::uint64_t kSeed = 7;  // as in table_worker.cpp

ProcessOptions run_table(int workers, int servers, const std::vector<std::string>& behaviours,
                         const std::vector<std::string>& options = {}) {
  std::vector<std::string> all = {"-n", std::to_string(workers), "--servers",
                                  std::to_string(servers)};
  all.insert(all.end(), options.begin(), options.end());
  std::vector<std::string> command = {binary("table_worker")};
  command.insert(command.end(), behaviours.begin(), behaviours.end());
  return paceline_run(all, command);
}

std::string serial_values(int workers, int steps) {
  return fmt::format("{:a}",
                     fmt::join(QuadraticWorld::serial<double>(kSeed, workers, steps, 0.125), " "));
}

// The process of a server of the job that `worker` belongs to; 0: there is none.
pid_t server_of(pid_t worker, int index) {
  for (const pid_t pid : processes_of_job(variable_of(worker, "PACELINE_JOB")))
    if (variable_of(pid, "PACELINE_SERVER_INDEX") == std::to_string(index)) return pid;
  return 0;
}

std::size_t lines_with(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (const std::string& line : lines_of(text)) count += line.find(part) != std::string::npos;
  return count;
}

TEST(Servers, ATableOfThreeWorkersOnTwoServersHasTheBitsOfOneLoop) {
  for (const std::string& transport : transports()) {
    const auto result = run(run_table(3, 2, {"train:5"}, {"--transport", transport}));
    EXPECT_EQ(result.exit_code, 0) << transport << result.error;
    EXPECT_EQ(told_by_all(result.output, "values", 3), serial_values(3, 5)) << transport;
    EXPECT_EQ(result.error, "");
  }
}

TEST(Servers, WorkersKnowTheirRoleAndCountThemselvesAlone) {
  const auto result = run(run_table(2, 3, {"role"}));
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.output, HasSubstr("[0] role worker 0 2 3\n"));
  EXPECT_THAT(result.output, HasSubstr("[1] role worker 1 2 3\n"));
  const auto none = run(run_table(2, 0, {"role"}));
  EXPECT_THAT(none.output, HasSubstr("[1] role worker 1 2 0\n"));
}

TEST(Servers, TheirLinesBeginWithTheirNumbers) {
  ProcessOptions options = run_table(1, 2, {"train:1"});
  options.environment["PACELINE_LOG"] = "debug";
  const auto result = run(options);
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.error, HasSubstr("[server 0] paceline: server 0 of 2 has joined"));
  EXPECT_THAT(result.error, HasSubstr("[server 1] paceline: server 1 has table 'w'"));
}

TEST(Servers, AKilledServerIsNamedToEveryWorkerWithTheTableAndEndsTheRun) {
  Process launcher(run_table(3, 2, {"stream"}));
  const auto pids = ready(launcher, 3);
  ASSERT_EQ(pids.size(), 3U) << launcher.error();
  const std::string job = variable_of(pids[0], "PACELINE_JOB");
  const pid_t victim = server_of(pids[0], 1), other = server_of(pids[0], 0);
  ASSERT_GT(victim, 0);
  const auto begin = Clock::now();
  ::kill(victim, SIGKILL);
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(5s))), 137);
  EXPECT_LT(Clock::now() - begin, 2s);
  EXPECT_EQ(lines_with(launcher.output(), " of table 'w': server 1 "), 3U) << launcher.output();
  EXPECT_EQ(lines_with(launcher.output(), "] failed peer lost: "), 3U) << launcher.output();
  EXPECT_THAT(launcher.error(),
              HasSubstr(fmt::format("paceline: server 1 (pid {}, host ", victim)));
  EXPECT_THAT(launcher.error(), HasSubstr("failed first: it was killed by signal 9 (SIGKILL)"));
  EXPECT_THAT(left_overs(job, {pids[0], pids[1], pids[2], other}, Deadline::in(0s)), IsEmpty());
}

TEST(Servers, AKilledServerEndsRanksThatOnlySumUpToo) {
  Process launcher(
      paceline_run({"-n", "2", "--servers", "1"}, {binary("collective_worker"), "stream"}));
  const auto pids = ready(launcher, 2);
  ASSERT_EQ(pids.size(), 2U) << launcher.error();
  ::kill(server_of(pids[0], 0), SIGKILL);
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(5s))), 137);
  EXPECT_EQ(lines_with(launcher.output(), "server 0 "), 2U) << launcher.output();
}

TEST(Servers, AKilledWorkerEndsTheServersToo) {
  Process launcher(run_table(2, 2, {"stream"}));
  const auto pids = ready(launcher, 2);
  ASSERT_EQ(pids.size(), 2U) << launcher.error();
  const std::string job = variable_of(pids[0], "PACELINE_JOB");
  const std::vector<pid_t> servers = {server_of(pids[0], 0), server_of(pids[0], 1)};
  const auto begin = Clock::now();
  ::kill(pids[1], SIGKILL);
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(5s))), 137);
  EXPECT_LT(Clock::now() - begin, 2s);
  EXPECT_THAT(launcher.error(), HasSubstr("paceline: rank 1 (pid "));
  EXPECT_THAT(launcher.error(), HasSubstr("servers 0, 1 ended with code 1"));
  EXPECT_THAT(left_overs(job, servers, Deadline::in(0s)), IsEmpty());
}

TEST(Servers, ProgramsThatNeverJoinLeaveNoServerBehind) {
  const auto result = run(run_probe(2, {"exit:0"}, {"--servers", "2", "--grace", "300ms"}));
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.error, HasSubstr("no process joined the run"));
  EXPECT_LT(result.took, 3s);
}

TEST(Servers, AWorkerThatExitsWithoutLeavingIsLostToThem) {
  const auto result = run(run_table(2, 1, {"1=exit", "stream"}));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.error,
              AllOf(HasSubstr("failed first: it ended with code 0 without ending its Job"),
                    HasSubstr("server 0 ended with code 1")));
}

TEST(Servers, TheyStayWhileWorkersSaveAfterSigterm) {
  Process launcher(run_table(2, 2, {"save"}));
  const auto pids = ready(launcher, 2);
  ASSERT_EQ(pids.size(), 2U) << launcher.error();
  launcher.send(SIGTERM);
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(10s))), 143);
  EXPECT_EQ(lines_with(launcher.output(), "] saved"), 2U) << launcher.output() << launcher.error();
  EXPECT_THAT(launcher.error(), Not(HasSubstr("server")));
}

TEST(Servers, ARestartStartsServersAndWorkersTogether) {
  Process launcher(run_table(2, 2, {"first"}, {"--max-restarts", "1"}));
  const auto pids = ready(launcher, 2);
  ASSERT_EQ(pids.size(), 2U) << launcher.error();
  ::kill(server_of(pids[0], 0), SIGKILL);
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(15s))), 0) << launcher.error();
  EXPECT_THAT(launcher.error(), HasSubstr("paceline: server 0 (pid "));
  EXPECT_THAT(launcher.error(), HasSubstr("restart in 1 s as generation 2"));
  EXPECT_EQ(told_by_all(launcher.output(), "values", 2), serial_values(2, 5));
}

TEST(Servers, AnExactDelayIsStableUpToTheLimitOfItsDelay) {
  for (const int delay : {0, 1, 3}) {
    const double limit = 2 * std::sin(std::numbers::pi / (2 * (2 * delay + 1)));
    for (const double factor : {0.98, 1.02}) {
      const auto result =
          run(run_table(2, 1, {fmt::format("delayed:{}:{}", delay, factor * limit)}));
      ASSERT_EQ(result.exit_code, 0) << result.error;
      const double envelope = std::stod(told_by_all(result.output, "envelope", 2));
      EXPECT_EQ(envelope < 1, factor < 1) << "delay " << delay << ": " << envelope;
    }
  }
}

// Under bsp every update counts, so one that was lost or counted twice would show. Nobody goes on
// while one pauses, so that the last pause finds most of the steps still to do.
TEST(Servers, PausesOfServersAndWorkersLoseNoUpdateAndAreNoError) {
  constexpr int kSteps = 10'000;
  Process launcher(run_table(2, 2, {fmt::format("told:{}", kSteps)}));
  const auto pids = ready(launcher, 2);
  ASSERT_EQ(pids.size(), 2U) << launcher.error();
  for (const pid_t paused : {server_of(pids[0], 0), pids[1], server_of(pids[0], 1), pids[0]}) {
    ::kill(paused, SIGSTOP);
    std::this_thread::sleep_for(is_nightly() ? 1000ms : 200ms);
    EXPECT_TRUE(is_alive(paused));
    ::kill(paused, SIGCONT);
  }
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(120s))), 0) << launcher.error();
  EXPECT_EQ(told_by_all(launcher.output(), "values", 2), serial_values(2, kSteps));
}

TEST(Servers, WorkersThatDifferInATableAreRefusedByName) {
  const auto result = run(run_table(3, 2, {"1=wider", "stream"}));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(lines_with(result.output,
                       "failed mismatch: the workers differ in the elements of "
                       "table 'w': "),
            3U)
      << result.output;
}

TEST(Servers, TheirLogsHaveFilesOfTheirOwn) {
  ProcessOptions options = run_table(1, 1, {"train:1"}, {"--log-dir", "."});
  options.environment["PACELINE_LOG"] = "debug";
  const TemporaryFolder folder;
  options.directory = folder.path();
  EXPECT_EQ(run(options).exit_code, 0);
  std::ifstream file(folder.file("latest/server_0.log"));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(text, HasSubstr("server 0 has table 'w' of 23 elements"));
}

#ifdef PACELINE_WITH_TORCH
// The digest of the parameters that three workers end with. `errors`: what they say.
std::string parameters_after(const std::vector<std::string>& launcher,
                             const std::vector<std::string>& options,
                             std::string* errors = nullptr) {
  const TemporaryFolder folder;
  const TrainingFiles files(folder.path());
  std::vector<std::string> run_options = {"-n", "3"};
  run_options.insert(run_options.end(), launcher.begin(), launcher.end());
  std::vector<std::string> all = {"--model", "mlp", "--batch-size", "31"};
  all.insert(all.end(), options.begin(), options.end());
  Process training(paceline_run(run_options, files.command(/*steps=*/8, /*every=*/0, all)));
  EXPECT_EQ(exit_code(training.wait(Deadline::in(60s))), 0) << training.error();
  if (errors != nullptr) *errors = training.error();
  return files.sha256();
}

// 31 images leave parts of different sizes to the workers.
TEST(Servers, GradientsThatTheyAverageHaveTheBitsOfCollectivesBySchedulesOfEveryKind) {
  const std::vector<const char*> all = {"buckets", "barrier",  "wait_free",
                                        "merged",  "priority", "general"};
  for (const std::string dtype : {"float32", "float64"}) {
    const std::string expected = parameters_after({}, {"--dtype", dtype});
    ASSERT_NE(expected, "no summary");
    int turn = 0;
    for (const char* schedule : dtype == "float32" ? all : std::vector{"priority"}) {
      const std::string transport = transports()[static_cast<std::size_t>(turn++) % 2];
      EXPECT_EQ(
          parameters_after({"--servers", "2", "--transport", transport},
                           {"--dtype", dtype, "--schedule", schedule, "--aggregate", "server"}),
          expected)
          << schedule << " over " << transport << ", " << dtype;
    }
  }
}

TEST(Servers, CodesAndHalvesHaveTheBitsOfCollectivesToo) {
  const std::vector<std::vector<std::string>> all = {{"--compression", "int8"},
                                                     {"--dtype", "bfloat16"}};
  for (const auto& options : all) {
    auto on_servers = options;
    on_servers.insert(on_servers.end(), {"--aggregate", "server"});
    EXPECT_EQ(parameters_after({"--servers", "2"}, on_servers), parameters_after({}, options))
        << options[0] << " " << options[1];
  }
}

TEST(Servers, TheFasterWayIsChosenByForecastWithTheSameBitsAndTheReasonIsTold) {
  const std::string expected = parameters_after({}, {});
  for (const char* schedule : {"buckets", "general"}) {
    std::string told;
    EXPECT_EQ(parameters_after({"--servers", "1"},
                               {"--schedule", schedule, "--aggregate", "automatic"}, &told),
              expected);
    EXPECT_THAT(told, HasSubstr(std::string("aggregate automatic: schedule '") + schedule +
                                "' takes a step of "));
  }
}

// Collectives would go on without the server, so this shows also that gradients travel there.
TEST(Servers, OneThatIsStoppedIsToldByTheGradientsThatItHolds) {
  const TemporaryFolder folder;
  const TrainingFiles files(folder.path());
  // On a busy machine one worker begins more than a second before the other.
  Process launcher(
      paceline_run({"-n", "2", "--servers", "1", "--operation-timeout", "3s", "--grace", "300ms"},
                   files.command(/*steps=*/1'000'000, /*every=*/0,
                                 {"--model", "linear", "--aggregate", "server"})));
  ASSERT_TRUE(launcher.wait_for_output("[0] step ", Deadline::in(30s))) << launcher.error();
  ::kill(server_of(files.workers().at(0), 0), SIGSTOP);
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(15s))), 1);
  EXPECT_THAT(launcher.error(), ::testing::ContainsRegex(
                                    "were averaged: deadline: rank [01] waits in push_pull of "
                                    "[0-9]+ f32 for average for server 0, which does not answer; "
                                    "look at what server 0 does"));
  EXPECT_THAT(launcher.error(), HasSubstr("server 0 had to be stopped (SIGKILL)"));
}

TEST(Servers, ParametersThatTheyKeepHaveTheSameBitsUnderAllThatWaitsForAll) {
  std::string expected;
  for (const auto& [transport, synchrony] : std::vector<std::pair<std::string, std::string>>{
           {"shm", "bsp"}, {"tcp", "ssp:staleness=0"}}) {
    const std::string found =
        parameters_after({"--servers", "2", "--transport", transport}, {"--synchrony", synchrony});
    ASSERT_NE(found, "") << synchrony;
    if (expected.empty()) expected = found;
    EXPECT_EQ(found, expected) << synchrony << " over " << transport;
  }
}

// The workers end with one model, whose parameters the example compares.
TEST(Servers, ParametersThatTheyKeepAreOneModelInTheEndWhoeverWaitsForWhom) {
  for (const auto& [transport, synchrony] :
       std::vector<std::pair<std::string, std::string>>{{"tcp", "asp:update=worker"},
                                                        {"shm", "backup_workers"},
                                                        {"shm", "staleness_aware:softsync=2"},
                                                        {"tcp", "dc_asgd:variant=adaptive"},
                                                        {"tcp", "downpour:warm_start=3"},
                                                        {"shm", "elastic:centre=server,period=2"},
                                                        {"tcp", "admm:centre=server,period=2"}})
    EXPECT_NE(parameters_after({"--servers", "2", "--transport", transport},
                               {"--synchrony", synchrony, "--pace", "5", "--slow", "drawn:3"}),
              "")
        << synchrony;
}

TEST(Servers, ASynchronyThatNeedsToKnowEachPullIsRefusedBesideReplicas) {
  const auto finished =
      run(paceline_run({"-n", "2", "--servers", "2", "--replicas", "2"},
                       {binary("fashion_mnist"), "--model", "linear", "--synchrony", "dc_asgd"}));
  EXPECT_EQ(finished.exit_code, 2);
  EXPECT_THAT(finished.error,
              AllOf(HasSubstr("dc_asgd"), HasSubstr("only one of the 2 replicas of a range knows"),
                    HasSubstr("--replicas 1")));
}

TEST(Servers, GradientsThatTheyCannotAverageAreRefusedByName) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--synchrony", "local_sgd:period=4"}, "synchrony \"local_sgd:period=4\""},
      {{"--zero", "1"}, "does not go with zero_stage 1"}};
  for (const auto& [options, expected] : cases) {
    std::vector<std::string> command = {
        binary("fashion_mnist"), "--model", "linear", "--steps", "1", "--aggregate", "server"};
    command.insert(command.end(), options.begin(), options.end());
    const auto finished = run(paceline_run({"-n", "2", "--servers", "1"}, command));
    EXPECT_EQ(finished.exit_code, 2) << expected;
    EXPECT_THAT(finished.error, HasSubstr(expected));
  }
  for (const char* synchrony : {"bsp", "asp:update=worker"}) {
    const auto without = run(paceline_run(
        {"-n", "2"}, {binary("fashion_mnist"), "--model", "linear", "--synchrony", synchrony}));
    EXPECT_EQ(without.exit_code, 2);
    EXPECT_THAT(without.error, HasSubstr("this job has none; start it with `paceline run"));
  }
  const auto alone = run(paceline_run({"-n", "2"}, {binary("fashion_mnist"), "--model", "linear",
                                                    "--steps", "1", "--aggregate", "server"}));
  EXPECT_EQ(alone.exit_code, 2);
  EXPECT_THAT(alone.error, HasSubstr("`paceline run --servers N`"));
  const auto unknown = run(paceline_run({"-n", "1"}, {binary("fashion_mnist"), "--model", "linear",
                                                      "--steps", "1", "--aggregate", "nobody"}));
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.error, HasSubstr("there are \"collective\", \"server\" and \"automatic\""));
}
#endif

}  // namespace
}  // namespace paceline::test
