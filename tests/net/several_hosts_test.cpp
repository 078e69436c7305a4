// `paceline run` over several hosts: network namespaces with a bridge between them
// (tests/net/hosts), and an ssh that enters them.
//
// With real processes it covers paceline/app/launch/agent/agent.h,
// paceline/app/launch/agent/remote_workers.h and paceline/app/launch/workers/local_workers.h too.
#include "tests/support/several_hosts.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "paceline/core/base/processors.h"
#include "tests/support/nightly.h"

namespace paceline::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The nearest process above that is `paceline run`.
pid_t launcher_of(pid_t worker) {
  const auto stat = file_text(fmt::format("/proc/{}/stat", shim_of(worker)));
  return std::atoi(stat.c_str() + stat.rfind(')') + 4);
}

TEST_F(SeveralHosts, GiveTheBitsOfOne) {
  const auto here = run(paceline_run({"-n", "4"}, {binary("collective_worker"), "hash"}));
  const auto there = run(run_over(2, {}, {binary("collective_worker"), "hash"}), Deadline::in(30s));
  EXPECT_EQ(there.exit_code, 0) << there.error;
  EXPECT_EQ(told_by_all(there.output, "] hash", 4), told_by_all(here.output, "] hash", 4));
}

TEST_F(SeveralHosts, AreMeasuredByABenchmarkThatStartsItsRanksOnThem) {
  const std::string command =
      binary("paceline") + R"( bench collective --hosts "${PACELINE_NET_HOSTS//,/:2,}:2" --ssh ")" +
      hosts_script() + R"( ssh" --sizes 4,64KiB --blocks 1 --operations 2 --json -)";
  const auto done = run(on_host_1(2, "exec " + command), Deadline::in(60s));
  ASSERT_EQ(done.exit_code, 0) << done.error;
  const auto rows = nlohmann::json::parse(done.output.substr(done.output.find('[')));
  ASSERT_EQ(rows.size(), 2U);
  for (const auto& row : rows) {
    EXPECT_EQ(row.at("ranks"), 4);
    EXPECT_EQ(row.at("transport"), "shm+tcp");
    EXPECT_EQ(row.at("errors"), 0);
  }
}

// Namespaces look like hosts; their ranks know that they share the machine's processors.
TEST_F(SeveralHosts, OnOneMachineShareItsProcessors) {
  const std::string command =
      binary("paceline") + R"( bench collective --hosts "${PACELINE_NET_HOSTS//,/:2,}:2" --ssh ")" +
      hosts_script() + R"( ssh" --sizes 4 --blocks 1 --operations 2)";
  const auto done = run(on_host_1(2, "exec " + command), Deadline::in(60s));
  ASSERT_EQ(done.exit_code, 0) << done.error;
  EXPECT_THAT(done.output, HasSubstr(fmt::format("processors: {}\n", own_processors().count())));
}

TEST_F(SeveralHosts, AlsoWithoutSshByOneLauncherOnEachNode) {
  const auto here = run(paceline_run({"-n", "4"}, {binary("collective_worker"), "hash"}));
  std::ofstream(folder_ / "secret") << std::string(64, '7');
  ::chmod((folder_ / "secret").c_str(), 0600);
  const auto node = [&](int rank) {
    return fmt::format(
        "{} run --nnodes 2 --node-rank {} --rdzv-endpoint $first:29400 --secret-file {} "
        "--nproc-per-node 2 -- {} hash",
        binary("paceline"), rank, (folder_ / "secret").string(), binary("collective_worker"));
  };
  const auto there = run(
      on_host_1(2,
                fmt::format("first=${{PACELINE_NET_HOSTS%%,*}} second=${{PACELINE_NET_HOSTS##*,}}; "
                            "{} on $second {} & {}; code=$?; wait $! || code=9; exit $code",
                            hosts_script(), node(1), node(0))),
      Deadline::in(30s));
  EXPECT_EQ(there.exit_code, 0) << there.error;
  EXPECT_EQ(told_by_all(there.output, "] hash", 4), told_by_all(here.output, "] hash", 4))
      << there.output;
}

TEST_F(SeveralHosts, AWorkerKnowsItsPlace) {
  const auto result =
      run(run_over(3, {"-n", "5", "-x", "COLOUR=blue"}, {binary("launch_probe"), "environment"}),
          Deadline::in(30s));
  EXPECT_EQ(result.exit_code, 0) << result.error;
  int seen = 0;
  for (const auto& line : lines_of(result.output)) {
    if (!line.starts_with("[")) continue;
    const int rank = std::atoi(line.c_str() + 1);
    const auto told = nlohmann::json::parse(line.substr(line.find("] ") + 2));
    const auto& variables = told["environment"];
    EXPECT_EQ(variables["PACELINE_WORLD_SIZE"], "5");
    EXPECT_EQ(variables["PACELINE_NODE_RANK"], std::to_string(rank / 2));
    EXPECT_EQ(variables["PACELINE_LOCAL_RANK"], std::to_string(rank % 2));
    EXPECT_EQ(variables["PACELINE_LOCAL_WORLD_SIZE"], rank == 4 ? "1" : "2");
    EXPECT_EQ(variables["GROUP_WORLD_SIZE"], "3");
    EXPECT_THAT(variables["PACELINE_STORE"].get<std::string>(), ::testing::StartsWith("10.83."));
    EXPECT_EQ(variables["COLOUR"], "blue");
    EXPECT_EQ(told["secret"]["mode"], 0600);
    const int secret = std::stoi(variables["PACELINE_SECRET_FD"].get<std::string>());
    EXPECT_THAT(told["descriptors"], ::testing::ElementsAre(0, 1, 2, secret));
    EXPECT_EQ(told["blocked_signals"], false);
    ++seen;
  }
  EXPECT_EQ(seen, 5);
}

TEST_F(SeveralHosts, EndWithTheCodeOfTheRankThatFailedFirstAndNameItsHost) {
  const auto coded =
      run(run_over(2, {}, {binary("launch_probe"), "3=exit:7", "wait"}), Deadline::in(30s));
  EXPECT_EQ(coded.exit_code, 7) << coded.error;
  EXPECT_THAT(
      coded.error,
      ::testing::ContainsRegex(
          "rank 3 \\(pid [0-9]+, host 10\\.83\\.[0-9]+\\.2\\) failed first: it ended with code 7"));
}

// Nobody reads the launcher's stdout while rank 2, on the other host, fills it; rank 3 fails.
TEST_F(SeveralHosts, OutputThatNobodyReadsDoesNotHideWhoFailedFirst) {
  const std::string noisy =
      "if [ $PACELINE_RANK = 2 ]; then yes; elif [ $PACELINE_RANK = 3 ]; then sleep 1; exit 7; "
      "else sleep 100; fi";
  Process launcher(run_over(2, {}, {"bash", "-c", noisy}));
  ASSERT_TRUE(launcher.ends_unread(Deadline::in(20s)));
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(5s))), 7);
  EXPECT_THAT(launcher.error(), HasSubstr("failed first: it ended with code 7"));
}

TEST_F(SeveralHosts, ARankKilledOnAnotherHostEndsAllWithinTwoSeconds) {
  Process launcher(run_over(2, {}, {binary("collective_worker"), "stream"}));
  const auto pids = ready(launcher, 4);
  ASSERT_EQ(pids.size(), 4U) << launcher.error();
  const auto job = variable_of(pids[0], "PACELINE_JOB");
  const auto killed = Clock::now();
  ::kill(pids[2], SIGKILL);
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(10s))), 137) << launcher.error();
  EXPECT_LT(Clock::now() - killed, 2500ms);  // the launcher's 2 s, and taking down the hosts
  for (const int rank : {0, 1, 3}) {
    EXPECT_THAT(launcher.output(),
                ::testing::ContainsRegex(fmt::format(
                    "\\[{}\\] failed peer lost: [^\n]*: rank 2 (was lost|\\(pid )", rank)));
  }
  EXPECT_THAT(left_overs(job, pids, Deadline::in(1s)), IsEmpty());
}

TEST_F(SeveralHosts, ALauncherThatIsKilledLeavesNothingOnAnyHost) {
  Process launcher(
      run_over(2, {}, {"bash", "-c", binary("launch_probe") + " stubborn; true"}, "sleep 60"));
  auto pids = ready(launcher, 4);
  ASSERT_EQ(pids.size(), 4U) << launcher.error();
  const auto job = variable_of(pids[0], "PACELINE_JOB");
  ::kill(launcher_of(pids[0]), SIGKILL);
  EXPECT_THAT(left_overs(job, pids, Deadline::in(1s)), IsEmpty());
}

TEST_F(SeveralHosts, TheWayToAHostThatBreaksIsAFailureWithItsName) {
  Process launcher(run_over(2, {}, {binary("launch_probe"), "wait"}));
  const auto pids = ready(launcher, 4);
  ASSERT_EQ(pids.size(), 4U) << launcher.error();
  const auto job = variable_of(pids[0], "PACELINE_JOB");
  ::kill(launcher_of(pids[3]), SIGKILL);  // the agent
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(10s))), 1);
  EXPECT_THAT(launcher.error(),
              ::testing::ContainsRegex("host 10\\.83\\.[0-9]+\\.2\\) failed first: it was lost: "));
  EXPECT_THAT(left_overs(job, pids, Deadline::in(1s)), IsEmpty());
}

TEST_F(SeveralHosts, SignalsReachEveryHost) {
  Process launcher(run_over(2, {}, {binary("launch_probe"), "catch:5"}));
  const auto pids = ready(launcher, 4);
  ASSERT_EQ(pids.size(), 4U) << launcher.error();
  ::kill(launcher_of(pids[0]), SIGINT);
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(10s))), 130) << launcher.error();
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_THAT(launcher.output(), HasSubstr(fmt::format("[{}] caught 2\n", rank)));
}

TEST_F(SeveralHosts, LinesOfEveryHostComeWholeAndInFilesToo) {
  const auto result =
      run(run_over(2, {"--log-dir", folder_ / "logs", "--tee", "1", "--redirects", "2"},
                   {binary("launch_probe"), "lines:300"}),
          Deadline::in(30s));
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.error, StartsWith("paceline: no process joined the run"));
  EXPECT_EQ(lines_of(result.error).size(), 1U) << "stderr of workers goes to the files alone";
  std::map<int, int> lines;
  for (const auto& line : lines_of(result.output)) {
    if (line.starts_with("[")) ++lines[std::atoi(line.c_str() + 1)];
  }
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(lines[rank], 300) << rank;
    EXPECT_EQ(
        lines_of(file_text(folder_ / "logs" / "latest" / fmt::format("rank_{}.log", rank))).size(),
        600U)
        << rank;
  }
}

TEST_F(SeveralHosts, TheSecretIsOnNoCommandLineNorInAnyEnvironment) {
  Process launcher(run_over(2, {}, {binary("launch_probe"), "wait"}));
  const auto pids = ready(launcher, 4);
  ASSERT_EQ(pids.size(), 4U) << launcher.error();
  const auto secret = file_text(variable_of(pids[3], "PACELINE_SECRET_FILE"));
  ASSERT_EQ(secret.size(), 64U);
  for (const auto& entry : fs::directory_iterator("/proc")) {
    if (!std::isdigit(static_cast<unsigned char>(entry.path().filename().string()[0]))) continue;
    for (const char* file : {"cmdline", "environ"}) {
      try {
        EXPECT_THAT(file_text(entry.path() / file), Not(HasSubstr(secret)));
      } catch (const std::ios_base::failure&) {
        // Some process of the system ended between the opening of its file and the reading.
      }
    }
  }
}

TEST_F(SeveralHosts, AProgramThatIsMissingThereIsNamedWithTheHost) {
  const auto result =
      run(on_host_1(2, fmt::format("exec {} run --hosts ${{PACELINE_NET_HOSTS##*,}}:1 --ssh '{} "
                                   "ssh' -x PATH=/nowhere true",
                                   binary("paceline"), hosts_script())),
          Deadline::in(20s));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.error,
              ::testing::ContainsRegex("host 10\\.83\\.[0-9]+\\.2: true was not found in \\$PATH"));
}

TEST_F(SeveralHosts, WithIPv6AloneHaveInterfacesForTheDoctor) {
  const auto result =
      run({.command = {hosts_script(), "with", "1", "--", "bash", "-c",
                       "ip address flush dev eth0 && ip address add 2001:db8::2/64 dev eth0 nodad "
                       "&& " +
                           binary("paceline") + " doctor"}},
          Deadline::in(60s));
  EXPECT_THAT(result.output, HasSubstr("interfaces     eth0 2001:db8::2\n")) << result.error;
}

TEST_F(SeveralHosts, ATimeoutEndsThemAll) {
  const auto result = run(run_over(2, {"--timeout", "700ms", "--stop-grace", "1s"},
                                   {binary("launch_probe"), "stubborn"}),
                          Deadline::in(20s));
  EXPECT_EQ(result.exit_code, 124) << result.error;
}

// MPICH tells no address: rank 0's goes through its process manager.
TEST_F(SeveralHosts, AreOneJobUnderMpichToo) {
  if (::access("/usr/bin/mpirun.mpich", X_OK) != 0)
    GTEST_SKIP() << "NOT TESTED: /usr/bin/mpirun.mpich is missing; run scripts/setup --launchers";
  const auto here = run(paceline_run({"-n", "4"}, {binary("collective_worker"), "hash"}));
  std::ofstream(folder_ / "secret") << std::string(64, '7');
  ::chmod((folder_ / "secret").c_str(), 0600);
  std::ofstream(folder_ / "ssh")
      << "#!/usr/bin/env bash\nwhile [[ $1 == -* ]]; do shift; done\nexec " << hosts_script()
      << " ssh \"$@\"\n";
  ::chmod((folder_ / "ssh").c_str(), 0755);
  const auto there =
      run(on_host_1(2, fmt::format("export PACELINE_SECRET_FILE={0}/secret; exec mpirun.mpich "
                                   "-hosts $PACELINE_NET_HOSTS -ppn 2 -n 4 -iface eth0 "
                                   "-localhost ${{PACELINE_NET_HOSTS%%,*}} -launcher ssh "
                                   "-launcher-exec {0}/ssh {1} hash",
                                   folder_.string(), binary("collective_worker"))),
          Deadline::in(30s));
  EXPECT_EQ(there.exit_code, 0) << there.error << there.output;
  const auto hash = here.output.substr(here.output.find("hash "),
                                       here.output.find('\n') - here.output.find("hash "));
  std::size_t seen = 0;
  for (auto at = there.output.find(hash); at != std::string::npos;
       at = there.output.find(hash, at + 1))
    ++seen;
  EXPECT_EQ(seen, 4U) << there.output;
}

TEST_F(SeveralHosts, ThePathOfPacelineMayHoldBlanks) {
  const fs::path odd = folder_ / "it's a folder";
  fs::create_directory(odd);
  fs::copy_file(binary("paceline"), odd / "paceline");
  const auto result = run(on_host_1(2,
                                    "exec \"$1\" run --hosts ${PACELINE_NET_HOSTS##*,}:1 --ssh '" +
                                        hosts_script() + " ssh' echo 'two  words'",
                                    {odd / "paceline"}),
                          Deadline::in(20s));
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.output, HasSubstr("[0] two  words\n"));
}

struct Cut {
  const char* name;
  std::vector<std::string> command;  // ADDRESS is the host's
};

// A pulled cable closes no connection.
class CutOff : public SeveralHosts, public ::testing::WithParamInterface<Cut> {};

TEST_P(CutOff, AHostEndsTheRunWhenAnOperationsTimeIsOver) {
  if (GetParam().name == std::string("nft") && ::access("/usr/sbin/nft", X_OK) != 0) {
    GTEST_SKIP() << "NOT TESTED: /usr/sbin/nft is missing; run scripts/setup --launchers";
  }
  Process launcher(
      run_over(2, {"--operation-timeout", "2s"}, {binary("collective_worker"), "stream"}));
  const auto net = net_of(launcher);
  const auto pids = ready(launcher, 4);
  ASSERT_EQ(pids.size(), 4U) << launcher.error();
  const auto job = variable_of(pids[0], "PACELINE_JOB");
  std::vector<std::string> cut = {hosts_script()};
  for (const auto& word : GetParam().command)
    cut.push_back(word == "ADDRESS" ? net.at("last") : word);
  const auto start = Clock::now();
  ASSERT_EQ(
      run({.command = cut, .environment = {{"PACELINE_NET", net.at("PACELINE_NET")}}}).exit_code,
      0);
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(20s))), 1) << launcher.error();
  EXPECT_LT(Clock::now() - start, 2s + 2s + 500ms)
      << "the operation's time, the end of a run, and taking down the hosts";
  EXPECT_THAT(launcher.output(), HasSubstr("failed timed out"));
  EXPECT_THAT(launcher.error(), HasSubstr("failed first"));
  EXPECT_THAT(left_overs(job, pids, Deadline::in(1s)), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    By, CutOff,
    ::testing::Values(Cut{"cable", {"link", "ADDRESS", "down"}},
                      Cut{"nft",
                          {"on", "ADDRESS", "nft",
                           "add table inet cut; add chain inet cut everything { type filter "
                           "hook input priority 0; policy drop; }"}}),
    [](const auto& one) { return one.param.name; });

// Nobody asks for a time: then the kernel gives the connection up after 20 s without an answer
// (core/transport/socket/socket.cpp).
TEST_F(SeveralHosts, ACableThatIsPulledIsNoticedWithoutAnyDeadline) {
  if (!is_nightly()) GTEST_SKIP() << "20 s: runs with PACELINE_NIGHTLY=1";
  Process launcher(run_over(2, {}, {binary("collective_worker"), "stream"}));
  const auto net = net_of(launcher);
  ASSERT_EQ(ready(launcher, 4).size(), 4U) << launcher.error();
  const auto start = Clock::now();
  ASSERT_EQ(run({.command = {hosts_script(), "link", net.at("last"), "down"},
                 .environment = {{"PACELINE_NET", net.at("PACELINE_NET")}}})
                .exit_code,
            0);
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(60s))), 1) << launcher.error();
  EXPECT_LT(Clock::now() - start, 25s);
  EXPECT_THAT(launcher.output(), HasSubstr("peer lost"));
}

TEST_F(SeveralHosts, AreTakenDownAlsoWhenEverythingIsKilled) {
  Process launcher(run_over(2, {}, {binary("launch_probe"), "stubborn"}));
  const auto net = net_of(launcher);
  const auto pids = ready(launcher, 4);
  ASSERT_EQ(pids.size(), 4U) << launcher.error();
  const auto job = variable_of(pids[0], "PACELINE_JOB");
  launcher.send(SIGKILL);
  const Deadline deadline = Deadline::in(5s);
  std::string left = net.at("PACELINE_NET");
  while (left.find(net.at("PACELINE_NET")) != std::string::npos && !deadline.passed())
    left = run({.command = {"ip", "netns", "list"}}).output;
  EXPECT_THAT(left, Not(HasSubstr(net.at("PACELINE_NET"))));
  EXPECT_THAT(left_overs(job, pids, Deadline::in(1s)), IsEmpty());
}

#ifdef PACELINE_WITH_TORCH

TEST_F(SeveralHosts, TrainTheExampleToTheParametersOfOne) {
  const auto sha256 = [&](const ProcessOptions& options) {
    const auto result = run(options, Deadline::in(90s));
    EXPECT_EQ(result.exit_code, 0) << result.error;
    nlohmann::json summary;
    std::ifstream lines(folder_ / "metrics.jsonl");
    for (std::string line; std::getline(lines, line);)
      summary = nlohmann::json::parse(line, nullptr, false);
    fs::remove(folder_ / "metrics.jsonl");
    return summary.value("parameters_sha256", std::string("none"));
  };
  const std::vector<std::string> example = {
      binary("fashion_mnist"),  "--model", "mlp",       "--steps", "10",
      "--batch-size",           "64",      "--threads", "1",       "--metrics",
      folder_ / "metrics.jsonl"};
  const auto expected = sha256(paceline_run({"-n", "4"}, example));
  EXPECT_EQ(expected.size(), 64U);
  EXPECT_EQ(sha256(run_over(2, {}, example)), expected);
}

#endif

}  // namespace
}  // namespace paceline::test
