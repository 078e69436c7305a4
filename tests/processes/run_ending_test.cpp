// How a run of real processes ends: exit codes, who failed first, grace, time-out
// (covers paceline/app/launch/run/run_job.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/launched.h"

namespace paceline::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(RunEnding, AllZeroIsZeroAndSaysNothing) {
  for (const auto& options : {paceline_run({"-n", "3"}, {binary("collective_worker"), "calls:3"}),
                              run_probe(1, {"exit:0"})}) {
    const auto result = run(options);
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(result.output, "");
    EXPECT_EQ(result.error, "");
  }
}

TEST(RunEnding, ProgramsThatNeverJoinAreToldSoAtTheEnd) {
  const auto result = run(run_probe(3, {"exit:0"}));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.error,
            "paceline: no process joined the run: 3 processes ran, each for itself. A program "
            "joins by calling paceline::init() at its start, and not if a wrapper (env -i, sudo) "
            "emptied its environment\n");
  const auto failed = run(run_probe(3, {"1=exit:3", "wait"}));
  EXPECT_EQ(failed.exit_code, 3);
  EXPECT_THAT(failed.error, Not(HasSubstr("no process joined"))) << "its failure is the news";
}

TEST(RunEnding, WhoLeavesByExitWhileOthersWaitIsNamedAsTheFirstFailure) {
  for (const char* leaves : {"1=exit:0", "1=_exit:0"}) {
    const auto result =
        run(paceline_run({"-n", "3"}, {binary("collective_worker"), leaves, "stream"}));
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.error, HasSubstr("paceline: rank 1 (pid "));
    EXPECT_THAT(result.error,
                HasSubstr("failed first: it ended with code 0 without ending its Job"));
  }
}

TEST(RunEnding, AfterACleanSaveNobodyHadToBeStopped) {
  Process launcher(run_probe(2, {"catch:143"}));
  ASSERT_EQ(ready(launcher, 2).size(), 2U);
  launcher.send(SIGTERM);
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(5s))), 143);
  EXPECT_THAT(launcher.error(), HasSubstr("paceline: ranks 0, 1 ended when asked to (code 143)\n"));
}

TEST(RunEnding, TheCodeOfAFailedProcessIsTheLaunchers) {
  const auto result = run(run_probe(3, {"1=exit:3", "wait"}));
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.error, HasSubstr("paceline: rank 1 (pid "));
  EXPECT_THAT(result.error, HasSubstr("failed first: it ended with code 3\n"));
  EXPECT_THAT(result.error, HasSubstr("paceline: ranks 0, 2 had to be stopped (SIGTERM)\n"));
  EXPECT_THAT(result.error, HasSubstr("paceline: exit code 3\n"));
  EXPECT_LE(lines_of(result.error).size(), 4U);
}

TEST(RunEnding, ASignalIs128PlusItsNumber) {
  for (const int number : {SIGKILL, SIGABRT, SIGTERM}) {
    const auto result = run(run_probe(2, {"0=die:" + std::to_string(number), "exit:0"}));
    EXPECT_EQ(result.exit_code, 128 + number);
    EXPECT_THAT(result.error, HasSubstr("rank 0 (pid "));
    EXPECT_THAT(result.error, HasSubstr("was killed by signal " + std::to_string(number)));
  }
}

TEST(RunEnding, AKilledWorkerEndsTheRunWithinTwoSeconds) {
  Process launcher(run_probe(3, {"wait"}));
  const auto pids = ready(launcher, 3);
  ASSERT_EQ(pids.size(), 3U) << launcher.error();
  const std::string job = variable_of(pids[0], "PACELINE_JOB");
  const pid_t shim = shim_of(pids[0]);
  const auto begin = Clock::now();
  ::kill(pids[1], SIGKILL);
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(5s))), 137);
  EXPECT_LT(Clock::now() - begin, 2s);
  EXPECT_THAT(launcher.error(), HasSubstr("rank 1 (pid " + std::to_string(pids[1]) + ", host "));
  EXPECT_THAT(left_overs(job, {pids[0], pids[2], shim}, Deadline::in(0s)), IsEmpty());
}

TEST(RunEnding, WhoIgnoresSigtermIsKilledWithinTwoSeconds) {
  Process launcher(run_probe(3, {"2=wait", "stubborn"}));
  const auto pids = ready(launcher, 3);
  ASSERT_EQ(pids.size(), 3U);
  const auto begin = Clock::now();
  ::kill(pids[2], SIGSEGV);
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(5s))), 139);
  EXPECT_GE(Clock::now() - begin, 1300ms);
  EXPECT_LT(Clock::now() - begin, is_nightly() ? 2s : 3s);
  EXPECT_THAT(launcher.error(), HasSubstr("ranks 0, 1 had to be stopped (SIGKILL)"));
}

TEST(RunEnding, GraceIsWhatSurvivorsHaveBeforeSigterm) {
  Process launcher(run_probe(2, {"1=wait", "catch:7"}, {"--grace", "100ms"}));
  const auto pids = ready(launcher, 2);
  ASSERT_EQ(pids.size(), 2U);
  const auto begin = Clock::now();
  ::kill(pids[1], SIGKILL);
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(5s))), 137);
  EXPECT_LT(Clock::now() - begin, 900ms);
  EXPECT_THAT(launcher.output(), HasSubstr("[0] caught 15\n"));
  EXPECT_THAT(launcher.error(), HasSubstr("rank 0 had to be stopped (ended with code 7)"));
}

TEST(RunEnding, TimeoutIs124) {
  const auto result = run(run_probe(2, {"wait"}, {"--timeout", "0.3"}));
  EXPECT_EQ(result.exit_code, 124);
  EXPECT_GE(result.took, 300ms);
  EXPECT_LT(result.took, 2s);
  EXPECT_THAT(result.error, HasSubstr("paceline: the run was stopped: --timeout has passed\n"));
}

TEST(RunEnding, AfterTheTimeoutTheStubbornAreKilled) {
  const auto result =
      run(run_probe(2, {"stubborn"}, {"--timeout", "200ms", "--stop-grace", "200ms"}));
  EXPECT_EQ(result.exit_code, 124);
  EXPECT_LT(result.took, 2s);
}

TEST(RunEnding, AKilledShimIsALostWorkerAndLeavesNothing) {
  Process launcher(run_probe(2, {"wait"}, {"--grace", "100ms"}));
  const auto pids = ready(launcher, 2);
  ASSERT_EQ(pids.size(), 2U);
  const std::string job = variable_of(pids[0], "PACELINE_JOB");
  ::kill(shim_of(pids[0]), SIGKILL);
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(5s))), 137);
  EXPECT_THAT(left_overs(job, pids, Deadline::in(1s)), IsEmpty());
}

}  // namespace
}  // namespace paceline::test
