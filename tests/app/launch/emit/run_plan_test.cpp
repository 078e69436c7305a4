// Laws of the manifests of all targets. That the systems' own models take them, and that their
// containers form a run, is tested by tests/readers/manifests_test.py; the script for Slurm runs in
// tests/net.
//
// Also covers paceline/app/launch/emit/slurm.cpp, paceline/app/launch/emit/k8s_trainjob.cpp and
// paceline/app/launch/emit/mpijob.cpp.
#include "paceline/app/launch/emit/run_plan.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <sstream>

#include "paceline/core/membership/environment/environment.h"
#include "tests/support/temporary_folder.h"

namespace paceline::launch {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

RunPlan sample(int nodes = 2) {
  return {.name = "train",
          .nodes = nodes,
          .processes = 4,
          .command = {"./train", "--rate", "$5", "it's"},
          .options = {"--grace", "2s"},
          .environment = {"COLOUR=deep $blue"},
          .max_restarts = 3,
          .stop_grace = seconds(90),
          .timeout = seconds(7000),
          .image = "registry/train:1",
          .volume = Volume{.source = "disk", .path = "/runs"}};
}

// The lines of a manifest that are comments.
std::string comments_in(const std::string& text) {
  std::string comments;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("#")) comments += line + "\n";
  return comments;
}

// The numbers that stand behind `before` in the text.
std::vector<long> numbers_after(const std::string& text, const std::string& before) {
  std::vector<long> found;
  const std::regex pattern(before + "\"?([0-9]+)");
  for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at)
    found.push_back(std::stol((*at)[1]));
  return found;
}

class OfTarget : public ::testing::TestWithParam<Target> {
 protected:
  std::string written(const RunPlan& plan) const { return GetParam().write(plan); }
};

TEST_P(OfTarget, SaysWhereTheLinesOfTheNewestStartAre) {
  RunPlan plan = sample();
  EXPECT_THAT(written(plan), Not(HasSubstr("latest")));
  if (!GetParam().own_launcher) return;  // --log-dir is refused for it
  plan.options.insert(plan.options.end(), {"--log-dir", "/runs/logs"});
  EXPECT_THAT(comments_in(written(plan)), HasSubstr("/runs/logs/latest/rank_N.log"));
}

TEST_P(OfTarget, NamesTheCommandTheVariablesAndWhatContainersNeed) {
  const std::string text = written(sample());
  for (const char* word : {"--rate", "it'", "COLOUR", "deep ", "blue"})
    EXPECT_THAT(text, HasSubstr(word));
  for (const char* word : {"registry/train:1", "disk", "/runs"})
    EXPECT_EQ(text.find(word) != std::string::npos, GetParam().in_containers) << word;
  EXPECT_EQ(text.find("--grace") != std::string::npos, GetParam().own_launcher);
}

TEST_P(OfTarget, HasASecretIfAndOnlyIfThereAreSeveralNodes) {
  EXPECT_THAT(written(sample(2)), HasSubstr("secret"));
  const std::string alone = written(sample(1));
  for (const char* word : {"secret", "--nnodes", "PACELINE_STORE"})
    EXPECT_THAT(alone, Not(HasSubstr(word)));
}

TEST_P(OfTarget, GivesMoreTimeToEndThanTheWorkersHaveToSave) {
  for (const long stop_grace : {1, 90, 4000}) {
    RunPlan plan = sample();
    plan.stop_grace = seconds(stop_grace);
    const std::string text = written(plan);
    auto times = numbers_after(text, "terminationGracePeriodSeconds: ");
    std::ranges::copy(numbers_after(text, "stop_grace_period: "), std::back_inserter(times));
    std::ranges::copy(numbers_after(text, "--signal=TERM@"), std::back_inserter(times));
    ASSERT_FALSE(times.empty()) << text;
    for (const long time : times) EXPECT_GT(time, stop_grace);
  }
}

TEST_P(OfTarget, AsksForAsManyDevicesOfEachNodeAsTheRunHasThere) {
  RunPlan plan = sample();
  EXPECT_THAT(written(plan), Not(HasSubstr("gpu")));
  plan.devices = 3;
  const std::string text = written(plan);
  std::vector<long> devices;
  for (const char* word : {"--gpus-per-node=", "nvidia.com/gpu: ", "count: "})
    std::ranges::copy(numbers_after(text, word), std::back_inserter(devices));
  EXPECT_FALSE(devices.empty()) << text;
  for (const long count : devices) EXPECT_EQ(count, 3);
}

TEST_P(OfTarget, StartsNoContainerAgainWithoutMaxRestarts) {
  if (!GetParam().in_containers) return;
  RunPlan plan = sample();
  plan.max_restarts = 0;
  const std::string text = written(plan);
  for (const char* again : {"on-failure", "restartPolicy: OnFailure", "restartPolicy: ExitCode"})
    EXPECT_THAT(text, Not(HasSubstr(again)));
  for (const long limit : numbers_after(text, "backoffLimit: ")) EXPECT_EQ(limit, 0);
}

INSTANTIATE_TEST_SUITE_P(Each, OfTarget, ::testing::ValuesIn(targets()), [](const auto& one) {
  std::string name = one.param.name;
  std::ranges::replace(name, '-', '_');
  return name;
});

TEST(Targets, HaveNamesOfTheirOwnAndSayWhatTheyAre) {
  std::vector<std::string> names;
  for (const Target& target : targets()) {
    EXPECT_EQ(std::ranges::count(names, target.name), 0) << target.name;
    EXPECT_NE(std::string(target.about), "");
    names.emplace_back(target.name);
  }
}

// Slurm's limit must not end a run that --timeout would end, even if the signal comes a minute
// early.
TEST(OfSlurm, LeavesTheRunItsTimeoutBeforeTheJobsSignal) {
  for (const long timeout : {1, 59, 3600, 86399, 1'000'000}) {
    RunPlan plan = sample();
    plan.timeout = seconds(timeout);
    const std::string text = slurm().write(plan);
    std::smatch time;
    ASSERT_TRUE(
        std::regex_search(text, time, std::regex("--time=(\\d+)-(\\d\\d):(\\d\\d):(\\d\\d)\n")));
    const long limit = std::stol(time[1]) * 86400 + std::stol(time[2]) * 3600 +
                       std::stol(time[3]) * 60 + std::stol(time[4]);
    EXPECT_LE(timeout, limit - 60 - numbers_after(text, "--signal=TERM@").at(0));
  }
  RunPlan endless = sample();
  endless.timeout.reset();
  EXPECT_THAT(slurm().write(endless), Not(HasSubstr("--time=")));
}

TEST(LauncherWords, TellANodeItsPlaceOnlyWhereThereAreSeveral) {
  const NodePlace place = {.node_rank = "R", .endpoint = "E", .id = "I", .secret_file = "S"};
  EXPECT_EQ(launcher_words(sample(2), place),
            (std::vector<std::string>{"paceline", "run", "--nnodes", "2", "--node-rank", "R",
                                      "--rdzv-endpoint", "E", "--rdzv-id", "I", "--secret-file",
                                      "S", "-n", "4", "--grace", "2s", "--"}));
  EXPECT_EQ(launcher_words(sample(1), place),
            (std::vector<std::string>{"paceline", "run", "-n", "4", "--grace", "2s", "--"}));
}

// Reads the variables as paceline::init() does.
Result<membership::Environment> environment_read(const Environment& variables) {
  return membership::read_environment([&](const char* name) -> const char* {
    const auto found = std::ranges::find_if(variables, [&](const std::string& entry) {
      return entry.starts_with(std::string(name) + "=");
    });
    return found == variables.end() ? nullptr : found->c_str() + std::string(name).size() + 1;
  });
}

std::string secret_file_in(const test::TemporaryFolder& folder) {
  const std::string file = folder.file("secret");
  std::ofstream(file) << std::string(64, 'a');
  ::chmod(file.c_str(), 0400);
  return file;
}

// The variables that each system gives the launcher of node 1 of 2 must not be taken for the place
// of its workers.
TEST(EnvironmentOfWorkers, IsTheLaunchersWhateverTheSystemToldIt) {
  const test::TemporaryFolder folder;
  const std::vector<Environment> systems = {
      {"SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_NODEID=1", "SLURM_STEP_ID=0", "SLURM_JOB_ID=7",
       "SLURM_LOCALID=0", "SLURM_STEP_NODELIST=n[1-2]", "SLURM_STEP_TASKS_PER_NODE=1(x2)"},
      {"PET_NNODES=2", "PET_NPROC_PER_NODE=4", "PET_NODE_RANK=1",
       "PET_MASTER_ADDR=train-node-0-0.train", "PET_MASTER_PORT=29500", "JOB_COMPLETION_INDEX=1"},
      {"RANK=1", "WORLD_SIZE=8", "MASTER_ADDR=train-master-0", "MASTER_PORT=23456", "PET_NNODES=2",
       "PET_NODE_RANK=1", "PET_NPROC_PER_NODE=4", "PYTHONUNBUFFERED=1"}};
  for (const Environment& system : systems) {
    Environment variables = system;
    variables.push_back("PACELINE_TRANSPORT=tcp");
    variables = worker_environment(
        variables, {.world_size = 8, .job = "j", .store = "10.0.0.1:5"},
        {.rank = 6, .local_rank = 2, .local_world_size = 4, .node_rank = 1, .nodes = 2});
    variables.push_back("PACELINE_SECRET_FILE=" + secret_file_in(folder));
    const auto read = environment_read(variables);
    ASSERT_TRUE(read.has_value()) << system.front() << ": " << read.error().what;
    EXPECT_EQ(read.value().launcher, "paceline run");
    EXPECT_EQ(read.value().rank, 6);
    EXPECT_EQ(read.value().world_size, 8);
    EXPECT_EQ(read.value().local_rank, 2);
    EXPECT_EQ(read.value().store, "10.0.0.1:5");
    EXPECT_EQ(read.value().transport, membership::TransportChoice::tcp);
  }
}

TEST(EnvironmentOfWorkers, UnderAnMpijobHasMpirunsPlaceAndTheManifestsStoreAndSecret) {
  const test::TemporaryFolder folder;
  const auto read = environment_read(
      {"OMPI_COMM_WORLD_RANK=5", "OMPI_COMM_WORLD_SIZE=8", "OMPI_COMM_WORLD_LOCAL_RANK=1",
       "OMPI_COMM_WORLD_LOCAL_SIZE=4", "PMIX_NAMESPACE=n", "PACELINE_STORE=10.0.0.9:29400",
       "PACELINE_SECRET_FILE=" + secret_file_in(folder)});
  ASSERT_TRUE(read.has_value()) << read.error().what;
  EXPECT_EQ(read.value().rank, 5);
  EXPECT_EQ(read.value().meeting.address, "10.0.0.9:29400");
  EXPECT_TRUE(read.value().secret.has_value());
  const std::string text = mpijob().write(sample());
  EXPECT_THAT(text, HasSubstr("-x PACELINE_STORE="));
  EXPECT_THAT(text, HasSubstr("name: PACELINE_SECRET_FILE"));
}

}  // namespace
}  // namespace paceline::launch
