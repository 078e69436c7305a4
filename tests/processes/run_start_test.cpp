// The start of a run of real processes: who is missing is said, and ends it in time
// (covers paceline/app/launch/run/run_job.h and paceline/core/job/joining.h).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "paceline/app/launch/hosts/hosts.h"
#include "tests/support/launched.h"
#include "tests/support/temporary_folder.h"

namespace paceline::test {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

ProcessOptions impatient(ProcessOptions options) {
  options.environment["PACELINE_STALL_TIME"] = "200ms";
  return options;
}

ProcessOptions shell(const std::string& script, const std::vector<std::string>& options) {
  return impatient(paceline_run(options, {"sh", "-c", script}));
}

TEST(RunStart, ARankThatEndsWithoutInitEndsTheWaitAtOnce) {
  const auto result = run(
      shell("[ $PACELINE_RANK = 1 ] && exit 0; exec " + binary("collective_worker") + " calls:3",
            {"-n", "3"}));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_LT(result.took, 8s);
  EXPECT_THAT(result.error, AllOf(HasSubstr("paceline: rank 1 (pid "),
                                  HasSubstr("failed first: it ended with code 0 without having "
                                            "joined the run, while others waited")));
}

TEST(RunStart, WhoIsMissingIsSaidAndTheStartHasALimitOfItsOwn) {
  const auto result = run(impatient(paceline_run(
      {"-n", "2", "--start-timeout", "3s"}, {binary("collective_worker"), "1=before", "calls:3"})));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_LT(result.took, 8s);
  EXPECT_THAT(result.error,
              AllOf(ContainsRegex("paceline: the start waits for [0-9.]+ s: rank 0 has joined; "
                                  "missing: rank 1 \\(pid "),
                    HasSubstr("failed first: it did not join within 3 s (--start-timeout)")));
}

TEST(RunStart, ARankWhoseEnvironmentAWrapperEmptiedIsTold) {
  const auto result =
      run(shell("[ $PACELINE_RANK = 1 ] && exec env -i " + binary("collective_worker") +
                    " calls:3; exec " + binary("collective_worker") + " calls:3",
                {"-n", "2"}));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.error, HasSubstr("or a wrapper (env -i, sudo) emptied its environment"));
  const auto all =
      run(paceline_run({"-n", "2"}, {"env", "-i", binary("collective_worker"), "calls:3"}));
  EXPECT_EQ(all.exit_code, 0);
  EXPECT_THAT(all.error, HasSubstr("a wrapper (env -i, sudo) emptied its environment"));
}

TEST(RunStart, VariablesThatAShellHasLeftOverAreNamedWhereALoneProgramWaits) {
  for (const std::string rank : {"0", "1"}) {
    const std::map<std::string, std::string> torchrun = {{"RANK", rank},
                                                         {"WORLD_SIZE", "2"},
                                                         {"MASTER_ADDR", "127.0.0.1"},
                                                         {"MASTER_PORT", "29871"}},
                                             srun = {{"SLURM_PROCID", rank},
                                                     {"SLURM_NTASKS", "2"},
                                                     {"SLURM_LOCALID", rank},
                                                     {"SLURM_NODEID", "0"},
                                                     {"SLURM_JOB_ID", "71"},
                                                     {"SLURM_STEP_ID", "0"},
                                                     {"SLURM_STEP_NODELIST", "localhost"},
                                                     {"SLURM_STEP_TASKS_PER_NODE", "2"}};
    for (const auto& [variables, left_over] :
         {std::pair(torchrun, fmt::format("RANK={} WORLD_SIZE=2 in its environment are left over "
                                          "from torchrun: unset them",
                                          rank)),
          std::pair(srun, fmt::format("SLURM_PROCID={} SLURM_NTASKS=2 in its "
                                      "environment are left over from srun: unset them",
                                      rank))}) {
      ProcessOptions lone{
          .command = {binary("collective_worker"), "calls:3"},
          .environment = {{"PACELINE_STALL_TIME", "100ms"}, {"PACELINE_START_TIMEOUT", "1s"}}};
      lone.environment.insert(variables.begin(), variables.end());
      const auto result = run(lone);
      EXPECT_EQ(result.exit_code, 1);
      EXPECT_THAT(result.error, AllOf(HasSubstr("paceline: start: for "), HasSubstr("rank "),
                                      HasSubstr(left_over)))
          << result.output;
      EXPECT_THAT(result.output, HasSubstr("failed timed out"));
    }
  }
}

TEST(RunStart, AllListenersTakeTheirPortsFromTheRange) {
  const int port = launch::free_port();
  const std::string range = fmt::format("{}:{}", port, port);
  const auto result = run(
      shell("echo store $PACELINE_STORE $PACELINE_PORT_RANGE", {"-n", "1", "--port-range", range}));
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.output, HasSubstr(fmt::format("store 127.0.0.1:{} {}\n", port, range)));
  const std::string several = fmt::format("{}:{}", port, port + 9);
  const auto ports = run(shell("echo master $MASTER_PORT", {"-n", "1", "--port-range", several}));
  const auto at = ports.output.find("master ");
  ASSERT_NE(at, std::string::npos) << ports.output << ports.error;
  const int master = std::atoi(ports.output.c_str() + at + 7);
  EXPECT_GE(master, port);
  EXPECT_LE(master, port + 9);
  const auto full = run(paceline_run({"-n", "2", "--transport", "tcp", "--port-range", range},
                                     {binary("collective_worker"), "calls:3"}));
  EXPECT_EQ(full.exit_code, 1);
  EXPECT_THAT(full.output, HasSubstr("--port-range (PACELINE_PORT_RANGE)"));
}

// An ssh that answers nothing and heeds no signal.
class HangingSsh : public ::testing::Test {
 protected:
  HangingSsh() {
    std::ofstream(script_)
        << "#!/bin/sh\ntrap '' INT TERM HUP\necho hangs $$ >&2\nsleep 60\nsleep 60\n";
    ::chmod(script_.c_str(), 0755);
  }
  ProcessOptions over_ssh(const std::string& limit = "60s",
                          const std::vector<std::string>& hosts = {"--hosts",
                                                                   "192.0.2.9:1"}) const {
    std::vector<std::string> options = {"--store",         "127.0.0.1:0", "--ssh",   script_,
                                        "--start-timeout", limit,         "--grace", "100ms"};
    options.insert(options.end(), hosts.begin(), hosts.end());
    return impatient(paceline_run(options, {binary("collective_worker"), "calls:3"}));
  }

  TemporaryFolder folder_;
  const std::string script_ = folder_.path() / "ssh";
};

TEST_F(HangingSsh, IsNamedAtTheStallTimeAndOneCtrlCEndsTheRun) {
  Process launcher(over_ssh());
  ASSERT_TRUE(launcher.wait_for_error("rank 0 (host 192.0.2.9): no process yet", Deadline::in(5s)))
      << launcher.error();
  const auto begin = Clock::now();
  launcher.send(SIGINT);
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(10s))), 130);
  EXPECT_LT(Clock::now() - begin, 2s);
  EXPECT_THAT(launcher.error(), HasSubstr("rank 0 had not started"));
}

TEST_F(HangingSsh, EndsAtTheStartTimeoutAndIsGoneWhetherARankOrAServerIsThere) {
  const std::vector<std::string> with_server = {"--hosts", "localhost:1",    "--servers",
                                                "1",       "--server-hosts", "192.0.2.9"};
  const std::vector<std::string> with_rank = {"--hosts", "192.0.2.9:1"};
  for (const auto& [hosts, member] :
       {std::pair(with_rank, "rank 0"), std::pair(with_server, "server 0")}) {
    const auto result = run(over_ssh("3s", hosts));
    EXPECT_EQ(result.exit_code, 1) << member;
    EXPECT_LT(result.took, 8s) << member;
    EXPECT_THAT(
        result.error,
        AllOf(ContainsRegex(fmt::format("the start waits for [0-9.]+ s: .*; missing: {} \\(host "
                                        "192\\.0\\.2\\.9\\): no process yet",
                                        member)),
              ContainsRegex(fmt::format("paceline: {} .*failed first: it did not join within 3 s "
                                        "\\(--start-timeout\\): no process yet: the way to that "
                                        "host \\(ssh\\) has not answered",
                                        member))));
    const auto at = result.error.find("hangs ");
    ASSERT_NE(at, std::string::npos) << result.error;
    EXPECT_FALSE(is_alive(std::atoi(result.error.c_str() + at + 6))) << member;
  }
}

// The real agent, of this version, gets the orders of a launcher of another one.
TEST(RunStart, AnAgentOfAnotherVersionEndsTheRunAndBothVersionsAreNamed) {
  const TemporaryFolder folder;
  const std::string script = folder.path() / "ssh";
  std::ofstream(script) << "#!/bin/sh\nshift\n"
                           "perl -e '$| = 1; while (sysread(STDIN, $b, 65536)) "
                           "{ $b =~ s/\"version\":\"\\d/\"version\":\"9/; print $b; }' | \"$@\"\n";
  ::chmod(script.c_str(), 0755);
  const auto result =
      run(paceline_run({"--hosts", "nice:1", "--store", "127.0.0.2:0", "--ssh", script}, {"true"}));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_LT(result.took, 8s);
  EXPECT_THAT(result.error, ContainsRegex("this host has Paceline [0-8]\\..*, the launcher's has "
                                          "9\\..*; install the same Paceline on all hosts"));
}

std::vector<std::string> node_options(const std::string& rank, int port,
                                      const std::string& secret) {
  return {"--nnodes",
          "2",
          "--node-rank",
          rank,
          "-n",
          "1",
          "--secret-file",
          secret,
          "--rdzv-endpoint",
          fmt::format("127.0.0.1:{}", port)};
}

TEST(RunStart, NodesThatAreAwaitedAreNamedAndTheTimeoutCountsFromTheStart) {
  const TemporaryFolder folder;
  const std::string secret = folder.path() / "secret";
  std::ofstream(secret) << std::string(64, 'a') << "\n";
  ::chmod(secret.c_str(), 0600);
  for (const auto& [rank, awaited] : {std::pair{"0", "for node ranks 1"},
                                      std::pair{"1", "node 1 waits for node 0 at 127.0.0.1"}}) {
    auto options = node_options(rank, launch::free_port(), secret);
    options.insert(options.end(), {"--timeout", "2s"});
    const auto result = run(impatient(paceline_run(options, {"true"})));
    EXPECT_EQ(result.exit_code, 124) << result.error;
    EXPECT_LT(result.took, 6s);
    EXPECT_THAT(result.error, AllOf(ContainsRegex("paceline: start: for [0-9.]+ s node "),
                                    HasSubstr(awaited), HasSubstr("--timeout has passed")));
  }
}

}  // namespace
}  // namespace paceline::test
