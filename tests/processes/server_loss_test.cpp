// Servers that die beside others that keep the same, as processes: those that the launcher starts
// in their place, and what it decides where none is left
// (covers paceline/app/launch/run/launched_generation.h).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/launched.h"

namespace paceline::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int kAskers = 2;  // servers are the members from here on

ProcessOptions run_askers(const std::vector<std::string>& options) {
  std::vector<std::string> all = {"-n", std::to_string(kAskers)};
  all.insert(all.end(), options.begin(), options.end());
  return paceline_run(all, {binary("server_asker")});
}

class Askers {
 public:
  explicit Askers(const std::vector<std::string>& options)
      : launcher(run_askers(options)), pids(ready(launcher, kAskers)) {
    EXPECT_EQ(pids.size(), static_cast<std::size_t>(kAskers)) << launcher.error();
    if (!pids.empty()) job = variable_of(pids[0], "PACELINE_JOB");
  }

  // The process of a server; it is waited for.
  pid_t server(int index) const {
    for (const Deadline deadline = Deadline::in(10s); !deadline.passed();)
      for (const pid_t pid : processes_of_job(job))
        if (variable_of(pid, "PACELINE_SERVER_INDEX") == std::to_string(index)) return pid;
    ADD_FAILURE() << "there is no server " << index << "\n" << launcher.error();
    return 0;
  }
  pid_t kill_server(int index) const {
    const pid_t pid = server(index);
    if (pid > 0) ::kill(pid, SIGKILL);
    return pid;
  }
  bool all_say(const std::string& what) {
    const Deadline deadline = Deadline::in(10s);
    for (int rank = 0; rank < kAskers; ++rank)
      if (!launcher.wait_for_output(fmt::format("[{}] {}\n", rank, what), deadline)) return false;
    return true;
  }
  // Brings the run to its end; returns its exit code.
  int end() {
    launcher.send(SIGUSR1);  // it reaches the ranks
    return exit_code(launcher.wait(Deadline::in(20s)));
  }
  std::string left() const { return left_overs(job, pids, Deadline::in(0s)); }

  Process launcher;
  const std::vector<pid_t> pids;
  std::string job;
};

TEST(ServerLoss, AServerThatIsKilledIsReplacedByAnotherThatAllRanksSpeakTo) {
  for (const std::string& transport : transports()) {
    SCOPED_TRACE(transport);
    Askers run({"--servers", "3", "--replicas", "2", "--transport", transport});
    ASSERT_NE(run.job, "");
    int newest = 3;
    for (const int victim : {1, 0, 3}) {  // the last one is itself in the place of another
      const pid_t pid = run.kill_server(victim);
      EXPECT_TRUE(run.all_say(fmt::format("lost {}", kAskers + victim))) << run.launcher.error();
      EXPECT_TRUE(run.all_say(fmt::format("answered {}", kAskers + newest)))
          << run.launcher.output() << run.launcher.error();
      EXPECT_TRUE(run.launcher.wait_for_error(fmt::format("server {} is ready\n", newest),
                                              Deadline::in(10s)))
          << run.launcher.error();
      EXPECT_THAT(
          run.launcher.error(),
          AllOf(HasSubstr(fmt::format("paceline: server {} (pid {}, host ", victim, pid)),
                HasSubstr(fmt::format("was killed by signal 9 (SIGKILL); the job goes on, and "
                                      "server {} is started in its place\n",
                                      newest)),
                HasSubstr(fmt::format("paceline: server {} is ready\n", newest))));
      ++newest;
    }
    EXPECT_EQ(run.end(), 0) << run.launcher.error();
    EXPECT_TRUE(run.all_say("sums right"));
    EXPECT_THAT(run.launcher.error(), Not(HasSubstr("failed")));
    EXPECT_THAT(run.left(), IsEmpty());
  }
}

// "ssh" is env here, and the host is called nice: an agent on this host, which has one server alone
// and nothing more to do when that one dies.
TEST(ServerLoss, OnAnotherHostAnAgentStartsTheNextOne) {
  Askers run({"--hosts", "localhost:2", "--server-hosts", "nice,localhost", "--ssh", "env",
              "--store", "127.0.0.2:0", "--servers", "2", "--replicas", "2"});
  ASSERT_NE(run.job, "");
  int newest = 2;
  for (const int victim : {0, 2}) {
    const pid_t pid = run.kill_server(victim);
    EXPECT_TRUE(run.all_say(fmt::format("answered {}", kAskers + newest)))
        << run.launcher.output() << run.launcher.error();
    EXPECT_THAT(run.launcher.error(),
                HasSubstr(fmt::format("paceline: server {} (pid {}, host nice) ", victim, pid)));
    ++newest;
  }
  EXPECT_EQ(run.end(), 0) << run.launcher.error();
  EXPECT_THAT(run.left(), IsEmpty());
}

TEST(ServerLoss, OneThatDiesWhileItComesIsReplacedToo) {
  Askers run({"--servers", "2", "--replicas", "2"});
  ASSERT_NE(run.job, "");
  run.kill_server(0);
  run.kill_server(2);
  EXPECT_TRUE(run.all_say(fmt::format("answered {}", kAskers + 3)))
      << run.launcher.output() << run.launcher.error();
  EXPECT_EQ(run.end(), 0) << run.launcher.error();
  EXPECT_THAT(run.left(), IsEmpty());
}

TEST(ServerLoss, WhereNoneIsLeftTheRunFailsAndNamesThoseThatDied) {
  for (const bool restarts : {false, true}) {
    std::vector<std::string> options = {"--servers", "3", "--replicas", "2"};
    if (restarts) options.insert(options.end(), {"--max-restarts", "1"});
    Askers run(options);
    ASSERT_NE(run.job, "");
    const pid_t first = run.server(0), second = run.server(1);
    const auto begin = Clock::now();
    ::kill(first, SIGKILL);
    ::kill(second, SIGKILL);
    for (const char* failed : {"[0] failed peer lost: ", "[1] failed peer lost: "})
      EXPECT_TRUE(run.launcher.wait_for_output(failed, Deadline::in(5s)))
          << run.launcher.output() << run.launcher.error();
    EXPECT_LT(Clock::now() - begin, 2s);
    if (restarts) {
      EXPECT_TRUE(run.launcher.wait_for_error("restart in 1 s as generation 2", Deadline::in(10s)));
      run.launcher.send(SIGTERM);
    }
    EXPECT_EQ(exit_code(run.launcher.wait(Deadline::in(10s))), restarts ? 143 : 137);
    EXPECT_THAT(run.launcher.error(),
                ::testing::ContainsRegex("server [01] \\(pid [0-9]+, host .*\\) failed first: it "
                                         "was killed by signal 9 \\(SIGKILL\\), after server "
                                         "[01]: nobody has the part of the tables"));
    EXPECT_THAT(run.left(), IsEmpty());
  }
}

TEST(ServerLoss, NoMoreServersAreStartedThanIsSaid) {
  Askers run({"--servers", "2", "--replicas", "2", "--server-restarts", "0"});
  ASSERT_NE(run.job, "");
  run.kill_server(1);
  EXPECT_TRUE(run.all_say(fmt::format("lost {}", kAskers + 1)));
  EXPECT_EQ(run.end(), 0);
  EXPECT_THAT(run.launcher.error(), HasSubstr("; the job goes on without it\n"));
  EXPECT_THAT(run.left(), IsEmpty());
}

TEST(ServerLoss, ALaunchersEndLeavesNoNewcomerBehind) {
  for (const int signal : {SIGINT, SIGKILL}) {
    Askers run({"--servers", "2", "--replicas", "2", "--stop-grace", "200ms"});
    ASSERT_NE(run.job, "");
    run.kill_server(0);
    ASSERT_TRUE(run.all_say(fmt::format("answered {}", kAskers + 2))) << run.launcher.error();
    run.launcher.send(signal);
    EXPECT_EQ(exit_code(run.launcher.wait(Deadline::in(10s))), 128 + signal);
    EXPECT_THAT(left_overs(run.job, run.pids, Deadline::in(5s)), IsEmpty());
  }
}

}  // namespace
}  // namespace paceline::test
