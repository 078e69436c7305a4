// The variables, secret, descriptors and signals of a worker when it starts.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <fstream>
#include <set>

#include <nlohmann/json.hpp>

#include "tests/support/launched.h"

namespace paceline::test {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// The JSON of each rank, by rank.
std::vector<json> told_by(const ProcessOptions& options, int ranks) {
  const auto result = run(options);
  EXPECT_EQ(result.exit_code, 0) << result.error;
  std::vector<json> by_rank(static_cast<std::size_t>(ranks));
  for (const auto& line : lines_of(result.output)) {
    const auto bracket = line.find("] ");
    if (line.starts_with("[") && bracket != std::string::npos) {
      by_rank.at(static_cast<std::size_t>(std::atoi(line.c_str() + 1))) =
          json::parse(line.substr(bracket + 2));
    }
  }
  return by_rank;
}

std::string text_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string at(const json& told, const char* name) {
  return told["environment"].value(name, "(not set)");
}

TEST(RunEnvironment, HasEveryNameOfOursAndTorchruns) {
  const auto told = told_by(run_probe(3, {"environment"}), 3);
  std::set<std::string> secret_files;
  for (int rank = 0; rank < 3; ++rank) {
    const auto& one = told[static_cast<std::size_t>(rank)];
    for (const char* name :
         {"PACELINE_RANK", "PACELINE_LOCAL_RANK", "RANK", "LOCAL_RANK", "ROLE_RANK"}) {
      EXPECT_EQ(at(one, name), std::to_string(rank)) << name;
    }
    for (const char* name : {"PACELINE_WORLD_SIZE", "PACELINE_LOCAL_WORLD_SIZE", "WORLD_SIZE",
                             "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE"}) {
      EXPECT_EQ(at(one, name), "3") << name;
    }
    EXPECT_EQ(at(one, "PACELINE_NODE_RANK"), "0");
    EXPECT_EQ(at(one, "GROUP_RANK"), "0");
    EXPECT_EQ(at(one, "GROUP_WORLD_SIZE"), "1");
    EXPECT_EQ(at(one, "PACELINE_GENERATION"), "1");
    EXPECT_EQ(at(one, "PACELINE_ROLE"), "worker");
    EXPECT_EQ(at(one, "PACELINE_TRANSPORT"), "auto");
    EXPECT_EQ(at(one, "PACELINE_DETERMINISM"), "reproducible");
    EXPECT_EQ(at(one, "PACELINE_OPERATION_TIMEOUT"), "(not set)");
    EXPECT_EQ(at(one, "PACELINE_JOB").size(), 16U);
    EXPECT_EQ(at(one, "PACELINE_JOB"), at(told[0], "PACELINE_JOB"));
    EXPECT_EQ(at(one, "TORCHELASTIC_RUN_ID"), at(one, "PACELINE_JOB"));
    EXPECT_EQ(at(one, "PACELINE_STORE"), at(told[0], "PACELINE_STORE"));
    EXPECT_THAT(at(one, "PACELINE_STORE"), StartsWith("127.0.0.1:"));
    EXPECT_EQ(at(one, "MASTER_ADDR"), "127.0.0.1");
    EXPECT_GT(std::stoi(at(one, "MASTER_PORT")), 0);
    secret_files.insert(at(one, "PACELINE_SECRET_FILE"));
  }
  EXPECT_EQ(secret_files.size(), 3U) << "each rank reads its own shim's";
}

TEST(RunEnvironment, AJobThatSlurmHasStartedAgainIsALaterGeneration) {
  auto options = run_probe(1, {"environment"}, {"--max-restarts", "3"});
  options.environment = {{"SLURM_RESTART_COUNT", "2"}};
  const auto told = told_by(options, 1);
  EXPECT_EQ(at(told[0], "PACELINE_GENERATION"), "3");
  EXPECT_EQ(at(told[0], "TORCHELASTIC_RESTART_COUNT"), "2");
  EXPECT_EQ(at(told[0], "TORCHELASTIC_MAX_RESTARTS"), "3");
}

TEST(RunEnvironment, TheSecretIsReadableByTheWorkerAloneAndSealed) {
  const auto told = told_by(run_probe(2, {"environment"}), 2);
  for (const auto& one : told) {
    EXPECT_EQ(one["secret"]["text"].get<std::string>().size(), 64U);
    EXPECT_EQ(one["secret"]["text"], told[0]["secret"]["text"]);
    EXPECT_EQ(one["secret"]["mode"], 0600);
    EXPECT_EQ(one["secret"]["can_be_written"], false);
  }
}

TEST(RunEnvironment, TheSecretReachesAGrandchildThroughWrappersThatCloseDescriptors) {
  const auto probe = binary("launch_probe");
  for (const std::vector<std::string>& wrapped :
       {std::vector<std::string>{"bash", "-c", probe + " environment; true"},
        std::vector<std::string>{
            "python3", "-c",
            "import subprocess; subprocess.run(['" + probe +
                "', 'environment'], close_fds=True, start_new_session=True)"}}) {
    const auto told = told_by(paceline_run({"-n", "1"}, wrapped), 1);
    EXPECT_EQ(told[0]["secret"]["text"].get<std::string>().size(), 64U);
  }
}

TEST(RunEnvironment, TheSecretIsNotInItNorInAnyCommandLine) {
  Process launcher(run_probe(2, {"wait"}));
  const auto workers = ready(launcher, 2);
  ASSERT_EQ(workers.size(), 2U);
  const std::string secret = text_of_file(variable_of(workers[0], "PACELINE_SECRET_FILE"));
  ASSERT_GE(secret.size(), 64U);
  // The launcher, a shim and the worker of each rank.
  std::vector<pid_t> processes = {launcher.pid()};
  for (const pid_t worker : workers) processes.insert(processes.end(), {worker, shim_of(worker)});
  for (const pid_t process : processes) {
    for (const char* name : {"cmdline", "environ"}) {
      const std::string text = text_of_file(fmt::format("/proc/{}/{}", process, name));
      EXPECT_THAT(text, HasSubstr(name == std::string("cmdline") ? "launch_probe" : "PATH="));
      EXPECT_EQ(text.find(secret.substr(0, 64)), std::string::npos) << name << " of " << process;
    }
  }
}

TEST(RunEnvironment, ARankInANamespaceOfItsOwnJoinsAndSoDoesOneOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root makes namespaces and changes the user";
  const std::string hello = binary("hello_world");
  for (const std::vector<std::string>& wrapped :
       {std::vector<std::string>{"unshare", "--pid", "--fork", "--mount-proc", hello},
        std::vector<std::string>{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                                 hello}}) {
    const auto result = run(paceline_run({"-n", "2"}, wrapped));
    EXPECT_EQ(result.exit_code, 0) << result.error;
    EXPECT_THAT(result.output, HasSubstr("[1] hello from rank 1 of 2: the ranks add up to 1\n"));
  }
}

TEST(RunEnvironment, AWorkerStartsWithItsStreamsTheSecretAndDefaultSignals) {
  const auto told = told_by(run_probe(2, {"environment"}), 2);
  for (const auto& one : told) {
    EXPECT_THAT(one["descriptors"], ElementsAre(0, 1, 2, std::stoi(at(one, "PACELINE_SECRET_FD"))));
    EXPECT_EQ(one["blocked_signals"], false);
    EXPECT_EQ(one["ignores_sigpipe"], false);
    EXPECT_EQ(one["leads_group"], false) << "its shim does";
  }
  EXPECT_EQ(told[1]["stdin"], "/dev/null");
}

TEST(RunEnvironment, NothingOfALauncherAboveReachesTheWorkers) {
  auto options =
      run_probe(1, {"environment"}, {"--transport", "tcp", "--operation-timeout", "90s"});
  options.environment = {{"OMPI_COMM_WORLD_RANK", "5"},
                         {"PMI_RANK", "5"},
                         {"PMIX_RANK", "5"},
                         {"SLURM_PROCID", "5"},
                         {"RANK", "5"},
                         {"MASTER_PORT", "1"},
                         {"PACELINE_RANK", "5"},
                         {"PACELINE_SECRET_FD", "5"},
                         {"PACELINE_RUN_GRACE", "5s"},
                         {"TORCHELASTIC_RESTART_COUNT", "5"},
                         {"PACELINE_LOG", "debug"},
                         {"OMP_NUM_THREADS", "7"}};
  const auto told = told_by(options, 1);
  for (const char* name :
       {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID", "PACELINE_RUN_GRACE"}) {
    EXPECT_EQ(at(told[0], name), "(not set)") << name;
  }
  EXPECT_NE(at(told[0], "PACELINE_SECRET_FD"), "5") << "the launcher's own";
  EXPECT_EQ(at(told[0], "PACELINE_RANK"), "0");
  EXPECT_EQ(at(told[0], "RANK"), "0");
  EXPECT_EQ(at(told[0], "TORCHELASTIC_RESTART_COUNT"), "0");
  EXPECT_NE(at(told[0], "MASTER_PORT"), "1");
  EXPECT_EQ(at(told[0], "PACELINE_TRANSPORT"), "tcp");
  EXPECT_EQ(at(told[0], "PACELINE_OPERATION_TIMEOUT"), "90s");
  EXPECT_EQ(at(told[0], "PACELINE_LOG"), "debug");
  EXPECT_EQ(at(told[0], "OMP_NUM_THREADS"), "7");
}

TEST(RunEnvironment, ThreadsAreTheUsableCoresDividedByTheRanks) {
  cpu_set_t cores;
  ASSERT_EQ(::sched_getaffinity(0, sizeof cores, &cores), 0);
  auto options = run_probe(2, {"environment"});
  options.command.insert(options.command.begin(), {"env", "-u", "OMP_NUM_THREADS"});
  EXPECT_EQ(at(told_by(options, 2)[1], "OMP_NUM_THREADS"),
            std::to_string(std::max(1, CPU_COUNT(&cores) / 2)));
}

// The processors that each rank may run on, as Linux lists them: "0-1,4".
std::set<std::string> processors_of_ranks(int ranks, std::vector<std::string> options) {
  options.insert(options.begin(), {"-n", std::to_string(ranks), "--no-prefix"});
  const auto result =
      run(paceline_run(options, {"grep", "Cpus_allowed_list", "/proc/self/status"}));
  EXPECT_EQ(result.exit_code, 0) << result.error;
  const auto lines = lines_of(result.output);
  EXPECT_EQ(lines.size(), static_cast<std::size_t>(ranks));
  return {lines.begin(), lines.end()};
}

TEST(RunEnvironment, RanksHaveProcessorsOfTheirOwnIfThereAreEnough) {
  cpu_set_t cores;
  ASSERT_EQ(::sched_getaffinity(0, sizeof cores, &cores), 0);
  const int count = CPU_COUNT(&cores);
  if (count < 2) GTEST_SKIP() << "one processor";
  const auto all = processors_of_ranks(1, {});
  EXPECT_EQ(processors_of_ranks(2, {}).size(), 2U);
  EXPECT_EQ(processors_of_ranks(2, {"--bind", "none"}), all);
  EXPECT_EQ(processors_of_ranks(count + 1, {}), all);

  cpu_set_t last;
  CPU_ZERO(&last);
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (!CPU_ISSET(i, &cores)) continue;
    CPU_ZERO(&last);
    CPU_SET(i, &last);
  }
  ASSERT_EQ(::sched_setaffinity(0, sizeof last, &last), 0);
  const auto mine = processors_of_ranks(1, {});
  EXPECT_EQ(processors_of_ranks(2, {}), mine) << "none that the launcher may not use";
  ASSERT_EQ(::sched_setaffinity(0, sizeof cores, &cores), 0);
}

TEST(RunEnvironment, RanksHaveTheDevicesThatTheyAreGivenAmongThoseThatAreShown) {
  auto options =
      paceline_run({"--devices", "1,0", "--ranks-per-device", "2", "--device-transport", "staged"},
                   {binary("launch_probe"), "environment"});
  options.environment = {{"CUDA_VISIBLE_DEVICES", "5,GPU-a,7"}, {"PACELINE_RANKS_PER_DEVICE", "9"}};
  const auto told = told_by(options, 4);
  for (const auto& one : told) {
    EXPECT_EQ(at(one, "PACELINE_WORLD_SIZE"), "4");
    EXPECT_EQ(at(one, "CUDA_VISIBLE_DEVICES"), "GPU-a,5");
    EXPECT_EQ(at(one, "PACELINE_RANKS_PER_DEVICE"), "2");
    EXPECT_EQ(at(one, "PACELINE_DEVICE_TRANSPORT"), "staged");
  }
}

TEST(RunEnvironment, OptionsComeFromVariablesToo) {
  auto options = paceline_run({}, {binary("launch_probe"), "environment"});
  options.environment = {{"PACELINE_RUN_NP", "2"}, {"PACELINE_RUN_TRANSPORT", "shm"}};
  EXPECT_EQ(at(told_by(options, 2)[1], "PACELINE_TRANSPORT"), "shm");
}

}  // namespace
}  // namespace paceline::test
