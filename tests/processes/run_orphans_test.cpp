// There are no orphans, even if the launcher is killed, even behind wrappers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/launched.h"

namespace paceline::test {
namespace {

using ::testing::IsEmpty;

struct Wrapper {
  const char* name;
  std::vector<std::string> command;  // "PROBE" stands for the program
};

std::vector<Wrapper> wrappers() {
  return {
      {"directly", {"PROBE", "stubborn"}},
      {"through bash -c", {"bash", "-c", "PROBE stubborn; true"}},
      {"in the background of a shell", {"bash", "-c", "PROBE stubborn & wait"}},
      {"through Python",
       {"python3", "-c", "import subprocess; subprocess.run(['PROBE', 'stubborn'])"}},
      {"through Python, in a session of its own",
       {"python3", "-c",
        "import subprocess; subprocess.run(['PROBE', 'stubborn'], start_new_session=True)"}},
      {"through two wrappers, in a session of its own",
       {"bash", "-c",
        "python3 -c \"import subprocess; subprocess.run(['PROBE', 'stubborn'], "
        "start_new_session=True)\""
        "; true"}},
  };
}

ProcessOptions run_wrapped(const Wrapper& wrapper) {
  auto command = wrapper.command;
  for (auto& word : command) {
    if (const auto at = word.find("PROBE"); at != std::string::npos)
      word.replace(at, 5, binary("launch_probe"));
  }
  return paceline_run({"-n", "2"}, command);
}

TEST(RunOrphans, AKilledLauncherLeavesNothingWithinASecond) {
  for (const auto& wrapper : wrappers()) {
    SCOPED_TRACE(wrapper.name);
    Process launcher(run_wrapped(wrapper));
    auto pids = ready(launcher, 2);
    ASSERT_EQ(pids.size(), 2U) << launcher.error();
    const std::string job = variable_of(pids[0], "PACELINE_JOB");
    ASSERT_EQ(job.size(), 16U);
    for (const int rank : {0, 1}) pids.push_back(shim_of(pids[static_cast<std::size_t>(rank)]));
    launcher.send(SIGKILL);
    EXPECT_THAT(left_overs(job, pids, Deadline::in(1s)), IsEmpty());
  }
}

TEST(RunOrphans, AFailedRunLeavesNothingThroughWrappers) {
  for (const auto& wrapper : wrappers()) {
    SCOPED_TRACE(wrapper.name);
    Process launcher(run_wrapped(wrapper));
    const auto pids = ready(launcher, 2);
    ASSERT_EQ(pids.size(), 2U) << launcher.error();
    const std::string job = variable_of(pids[0], "PACELINE_JOB");
    launcher.send(SIGTERM);
    launcher.send(SIGINT);  // the second kills
    EXPECT_TRUE(launcher.wait(Deadline::in(2s)).has_value());
    EXPECT_THAT(left_overs(job, pids, Deadline::in(0s)), IsEmpty());
  }
}

TEST(RunOrphans, WhatAWorkerLeavesBehindIsKilledWhenItEnds) {
  Process launcher(run_probe(2, {"leave"}));
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(5s))), 0);
  for (const int rank : {0, 1}) {
    const auto left = told(launcher.output(), rank, "left");
    ASSERT_TRUE(left.has_value());
    EXPECT_FALSE(is_alive(*left));
  }
}

TEST(RunOrphans, ALauncherKilledWhileItStartsLeavesNothing) {
  for (int attempt = 0; attempt < 5; ++attempt) {
    Process launcher(run_probe(8, {"stubborn"}));
    // Any rank will do; others are still to come.
    ASSERT_TRUE(launcher.wait_for_output("ready ", Deadline::in(10s)));
    const auto line = lines_of(launcher.output()).front();
    const auto job = variable_of(std::atoi(line.c_str() + line.rfind(' ')), "PACELINE_JOB");
    launcher.send(SIGKILL);
    ASSERT_EQ(job.size(), 16U);
    EXPECT_THAT(left_overs(job, {}, Deadline::in(1s)), IsEmpty());
  }
}

TEST(RunOrphans, ProcessesThatWereThereBeforeAreNotTouched) {
  Process shell({.command = {"bash", "-c",
                             "sleep 100 & echo before $!; exec " + binary("paceline") +
                                 " run -n 1 " + binary("launch_probe") + " wait"}});
  const auto pids = ready(shell, 1);
  ASSERT_EQ(pids.size(), 1U);
  const int before = std::atoi(shell.output().c_str() + std::string("before ").size());
  ::kill(shim_of(pids[0]), SIGKILL);
  // The sleeping process keeps the pipes open, so wait for the words instead of for their end.
  EXPECT_TRUE(shell.wait_for_error("paceline: exit code 137", Deadline::in(5s))) << shell.error();
  EXPECT_TRUE(is_alive(before));
  ::kill(before, SIGKILL);
}

}  // namespace
}  // namespace paceline::test
