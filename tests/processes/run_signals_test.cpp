// Signals to the launcher: which are forwarded, and how the run ends.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "tests/support/launched.h"

namespace paceline::test {
namespace {

using ::testing::HasSubstr;

TEST(RunSignals, EachStopSignalIsForwardedToAllAndEndsWith128PlusN) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    Process launcher(run_probe(2, {"catch:0"}));
    ASSERT_EQ(ready(launcher, 2).size(), 2U);
    launcher.send(number);
    for (const int rank : {0, 1}) {
      EXPECT_TRUE(launcher.wait_for_output(fmt::format("[{}] caught {}\n", rank, number),
                                           Deadline::in(5s)));
    }
    if (number == SIGHUP || number == SIGQUIT)
      launcher.send(SIGINT);  // the probe goes on after these: kill it
    EXPECT_EQ(exit_code(launcher.wait(Deadline::in(5s))), 128 + number);
  }
}

TEST(RunSignals, ControlCLetsWorkersEndInTheirOwnTimeAndASecondKills) {
  Process launcher(run_probe(2, {"stubborn"}, {"--grace", "50ms"}));
  const auto pids = ready(launcher, 2);
  ASSERT_EQ(pids.size(), 2U);
  launcher.send(SIGINT);
  // Nothing may happen now for 30 s; much longer than --grace shows it well enough.
  EXPECT_FALSE(launcher.wait_for_error("paceline:", Deadline::in(700ms)));
  EXPECT_TRUE(is_alive(pids[0]));
  const auto begin = Clock::now();
  launcher.send(SIGINT);
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(5s))), 130);
  EXPECT_LT(Clock::now() - begin, 1s);
  EXPECT_THAT(launcher.error(), HasSubstr("paceline: the run was stopped by SIGINT\n"));
}

TEST(RunSignals, ControlCEndsWith130EvenIfAWorkerFailsThen) {
  Process launcher(run_probe(2, {"1=wait", "catch:9"}));
  ASSERT_EQ(ready(launcher, 2).size(), 2U);
  launcher.send(SIGINT);
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(5s))), 130);
}

char state_of(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto name = text.rfind(") ");
  return name == std::string::npos ? '?' : text[name + 2];
}

bool all_become(const std::vector<pid_t>& processes, bool stopped) {
  const Deadline deadline = Deadline::in(5s);
  const auto is_so = [&](pid_t process) { return (state_of(process) == 'T') == stopped; };
  while (!std::ranges::all_of(processes, is_so)) {
    if (deadline.passed()) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST(RunSignals, ControlZStopsTheWorkersTooUntilTheyGoOn) {
  Process launcher(run_probe(2, {"wait"}));
  auto processes = ready(launcher, 2);
  ASSERT_EQ(processes.size(), 2U);
  processes.push_back(launcher.pid());
  for (int round = 0; round < 2; ++round) {
    launcher.send(SIGTSTP);
    EXPECT_TRUE(all_become(processes, /*stopped=*/true));
    launcher.send(SIGCONT);
    EXPECT_TRUE(all_become(processes, /*stopped=*/false));
  }
  launcher.send(SIGTERM);
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(5s))), 143);
}

TEST(RunSignals, TheTimeoutGoesOnWhileARunIsStopped) {
  const auto begin = Clock::now();
  Process launcher(run_probe(1, {"wait"}, {"--timeout", "3s"}));
  ASSERT_EQ(ready(launcher, 1).size(), 1U);
  launcher.send(SIGTSTP);
  EXPECT_TRUE(all_become({launcher.pid()}, /*stopped=*/true));
  EXPECT_FALSE(launcher.wait_for_error("paceline:", Deadline::at(begin + 3500ms)));
  launcher.send(SIGCONT);
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(5s))), 124);
}

TEST(RunSignals, UserSignalsAreForwardedAndChangeNothing) {
  Process launcher(run_probe(2, {"catch:0"}));
  ASSERT_EQ(ready(launcher, 2).size(), 2U);
  for (const int number : {SIGUSR1, SIGUSR2}) {
    launcher.send(number);
    for (const int rank : {0, 1}) {
      EXPECT_TRUE(launcher.wait_for_output(fmt::format("[{}] caught {}\n", rank, number),
                                           Deadline::in(5s)));
    }
  }
  EXPECT_TRUE(is_alive(launcher.pid()));
}

TEST(RunSignals, SignalsReachWhatAWrapperStarted) {
  Process launcher(
      paceline_run({"-n", "1"}, {"bash", "-c", binary("launch_probe") + " catch:0; true"}));
  ASSERT_EQ(ready(launcher, 1).size(), 1U);
  launcher.send(SIGTERM);
  EXPECT_TRUE(launcher.wait_for_output("[0] caught 15\n", Deadline::in(5s)));
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(5s))), 143);
}

TEST(RunSignals, UnderNohupAHangupIsNoEnd) {
  auto options = run_probe(1, {"wait"});
  options.ignore_hangup = true;
  Process launcher(options);
  ASSERT_EQ(ready(launcher, 1).size(), 1U);
  launcher.send(SIGHUP);
  EXPECT_FALSE(launcher.wait_for_error("paceline:", Deadline::in(200ms)));
  EXPECT_TRUE(is_alive(launcher.pid()));
}

}  // namespace
}  // namespace paceline::test
