// Workers that other launchers start: the real torchrun, mpirun of both MPIs and srun, and
// processes that TF_CONFIG describes. `scripts/setup --launchers` installs them; a test whose
// launcher is missing says so and is skipped.
//
// Also covers paceline/core/membership/store/pmi.cpp and torchrun_store.cpp, whose servers only
// these launchers have.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>

#include <nlohmann/json.hpp>

#include "tests/core/server/machine/quadratic_world.h"
#include "tests/support/launched.h"
#include "tests/support/nightly.h"
#include "tests/support/slurm.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/training_run.h"

namespace paceline::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

std::string secret_file_in(const TemporaryFolder& folder) {
  const std::string file = folder.file("secret");
  std::ofstream(file) << std::string(64, 'a') << "\n";
  ::chmod(file.c_str(), 0600);
  return file;
}

// A Python that can import torch (bench/against/setup): our .venv cannot.
std::string python_with_torch() {
  return fs::path(binary("paceline")).parent_path() / "../../against/python";
}

struct Launcher {
  std::string name;
  std::string needs;                 // the executable
  std::vector<std::string> command;  // RANKS stands for how many
  std::map<std::string, std::string> environment = {};
};

std::vector<Launcher> launchers_of_others() {
  return {
      {"torchrun",
       python_with_torch(),
       {python_with_torch(), "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
        "RANKS", "--no-python"}},
      {"OpenMPI",
       "/usr/bin/mpirun.openmpi",
       {"mpirun.openmpi", "--oversubscribe", "-n", "RANKS"},
       {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}}},
      {"MPICH", "/usr/bin/mpirun.mpich", {"mpirun.mpich", "-n", "RANKS"}},
  };
}

// Some leave files in the temporary folder: theirs ends with the run.
Finished run_by(const Launcher& launcher, int ranks, const std::vector<std::string>& program,
                Deadline deadline = Deadline::in(60s)) {
  const TemporaryFolder temporary;
  ProcessOptions options{.command = launcher.command, .environment = launcher.environment};
  options.environment["TMPDIR"] = temporary.path();
  for (auto& word : options.command) {
    if (word == "RANKS") word = std::to_string(ranks);
  }
  options.command.insert(options.command.end(), program.begin(), program.end());
  return run(options, deadline);
}

class ForeignLauncher : public ::testing::TestWithParam<Launcher> {};

TEST_P(ForeignLauncher, GivesTheBitsOfPacelineRun) {
  NEED(GetParam().needs);
  const auto result = run_by(GetParam(), 3, {binary("collective_worker"), "hash"});
  EXPECT_EQ(result.exit_code, 0) << result.error << result.output;
  EXPECT_EQ(told_by_all(result.output, "hash", 3), expected_hash(3)) << result.error;
}

TEST_P(ForeignLauncher, FindsItsRanksThroughWrappers) {
  NEED(GetParam().needs);
  const auto result =
      run_by(GetParam(), 2, {"bash", "-c", binary("collective_worker") + " hash; true"});
  EXPECT_EQ(told_by_all(result.output, "hash", 2), expected_hash(2)) << result.error;
}

TEST_P(ForeignLauncher, ARankThatDiesEndsTheOthers) {
  NEED(GetParam().needs);
  const auto start = Clock::now();
  const auto result = run_by(GetParam(), 3, {binary("collective_worker"), "1=exit:3", "stream"});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_NE(result.exit_code, -1) << "it had to be killed";
  EXPECT_LT(Clock::now() - start, 40s);  // torchrun itself takes some
}

void PrintTo(const Launcher& launcher, std::ostream* to) {
  *to << launcher.name;
}

INSTANTIATE_TEST_SUITE_P(Of, ForeignLauncher, ::testing::ValuesIn(launchers_of_others()),
                         [](const auto& one) { return one.param.name; });

// Two agents, as on two hosts: rank 0 tells its address through the agents' own store, whose port
// it cannot have.
TEST(Torchrun, OfTwoNodesMeetsThroughTheAgentsStore) {
  NEED(python_with_torch());
  const TemporaryFolder folder;
  std::vector<std::unique_ptr<Process>> nodes;
  for (const char* node : {"0", "1"}) {
    nodes.push_back(std::make_unique<Process>(ProcessOptions{
        .command = {python_with_torch(), "-m", "torch.distributed.run", "--nnodes", "2",
                    "--node-rank", node, "--rdzv-backend", "c10d", "--rdzv-endpoint",
                    "127.0.0.1:29467", "--rdzv-id", "paceline-test", "--nproc-per-node", "2",
                    "--no-python", binary("collective_worker"), "hash"},
        .environment = {{"PACELINE_SECRET_FILE", secret_file_in(folder)},
                        {"TMPDIR", folder.path()}}}));
  }
  std::string output;
  for (auto& node : nodes) {
    EXPECT_EQ(exit_code(node->wait(Deadline::in(60s))), 0) << node->error();
    output += node->output();
  }
  EXPECT_EQ(told_by_all(output, "hash", 4), expected_hash(4));
}

TEST_F(Slurm, OnTwoNodesGivesTheBitsOfPacelineRun) {
  const auto plain = srun({"-N2", "-n4", binary("collective_worker"), "hash"});
  EXPECT_EQ(told_by_all(plain.output, "hash", 4), expected_hash(4)) << plain.error << plain.output;
  const auto pmi2 = srun({"--mpi=pmi2", "-N2", "-n3", binary("collective_worker"), "hash"});
  EXPECT_EQ(told_by_all(pmi2.output, "hash", 3), expected_hash(3)) << pmi2.error << pmi2.output;
  const auto secret = srun(
      {"-N2", "-n3", binary("collective_worker"), "hash"},
      {{"PACELINE_SECRET_FILE", secret_file_in(folder_)}, {"PACELINE_STORE", "127.0.0.1:26820"}});
  EXPECT_EQ(told_by_all(secret.output, "hash", 3), expected_hash(3))
      << secret.error << secret.output;
  // The names of these nodes do not resolve: that is told, with the remedy.
  const auto unknown = srun({"-N2", "-n3", binary("collective_worker"), "hash"},
                            {{"PACELINE_SECRET_FILE", secret_file_in(folder_)}});
  EXPECT_THAT(unknown.output, HasSubstr("failed misuse: the host name 'n1' cannot be resolved"));
}

// Processes of one cluster, each with its TF_CONFIG.
struct Task {
  const char* type;
  int index;
};
std::string run_cluster(const json& cluster, const std::vector<Task>& tasks,
                        const std::map<std::string, std::string>& environment = {},
                        const std::vector<std::string>& command = {binary("collective_worker"),
                                                                   "hash"}) {
  std::vector<std::unique_ptr<Process>> processes;
  for (const Task& task : tasks) {
    auto variables = environment;
    variables["TF_CONFIG"] =
        json{{"cluster", cluster}, {"task", {{"type", task.type}, {"index", task.index}}}}.dump();
    processes.push_back(std::make_unique<Process>(
        ProcessOptions{.command = command, .environment = std::move(variables)}));
  }
  std::string output;
  for (auto& process : processes) {
    EXPECT_EQ(exit_code(process->wait(Deadline::in(30s))), 0)
        << process->output() << process->error();
    output += process->output();
  }
  return output;
}

TEST(TfConfig, ChiefAndWorkersTrainTogetherAndAnEvaluatorIsAlone) {
  const json cluster = {{"chief", {"127.0.0.1:26830"}},
                        {"worker", {"127.0.0.1:26831", "127.0.0.1:26832"}},
                        {"evaluator", {"127.0.0.1:26833"}}};
  const std::string trained = run_cluster(cluster, {{"worker", 1}, {"chief", 0}, {"worker", 0}});
  EXPECT_EQ(told_by_all(trained, "hash", 3), expected_hash(3));
  EXPECT_EQ(told_by_all(run_cluster(cluster, {{"evaluator", 0}}), "hash", 1), expected_hash(1));
}

TEST(TfConfig, ParameterServersServeTheWorkersWithAndWithoutASecret) {
  const TemporaryFolder folder;
  const std::string secret = folder.file("secret");
  std::ofstream(secret) << std::string(64, 'a');
  ::chmod(secret.c_str(), 0600);
  const json cluster = {{"worker", {"127.0.0.1:26836", "127.0.0.1:26837"}},
                        {"ps", {"127.0.0.1:26838", "localhost:26839"}}};
  for (const std::map<std::string, std::string>& environment :
       {std::map<std::string, std::string>{}, {{"PACELINE_SECRET_FILE", secret}}}) {
    const std::string output =
        run_cluster(cluster, {{"ps", 0}, {"worker", 0}, {"ps", 1}, {"worker", 1}}, environment,
                    {binary("table_worker"), "train:5"});
    const std::string serial =
        fmt::format("{:a}", fmt::join(QuadraticWorld::serial<double>(7, 2, 5, 0.125), " "));
    EXPECT_EQ(told_by_all(output, "values", 2), serial);
  }
}

TEST(TfConfig, WithASecretRank0ListensAtItsOwnEntry) {
  const TemporaryFolder folder;
  const json cluster = {{"worker", {"127.0.0.1:26834", "localhost:26835"}}};
  const auto trained = run_cluster(cluster, {{"worker", 1}, {"worker", 0}},
                                   {{"PACELINE_SECRET_FILE", secret_file_in(folder)}});
  EXPECT_EQ(told_by_all(trained, "hash", 2), expected_hash(2));
}

TEST(TfConfig, AnotherHostWithoutASecretIsRefusedWithTheRemedy) {
  const auto refused = run(
      {.command = {binary("collective_worker"), "hash"},
       .environment = {
           {"TF_CONFIG",
            R"({"cluster": {"worker": ["192.0.2.77:1", "localhost:2"]}, "task": {"type": "worker", "index": 1}})"}}});
  EXPECT_THAT(refused.output, HasSubstr("rank 0 is on another host (192.0.2.77:1)"));
  EXPECT_THAT(refused.output, HasSubstr("PACELINE_SECRET_FILE"));
}

#ifdef PACELINE_WITH_TORCH

// The issue's line: the same example under every launcher gives the same parameters.
class SameParameters : public Slurm {
 protected:
  void SetUp() override {}  // Slurm only where it is needed
  void TearDown() override {}

  std::vector<std::string> example() const {
    return {binary("fashion_mnist"),
            "--model",
            "linear",
            "--steps",
            "10",
            "--batch-size",
            "64",
            "--threads",
            "1",
            "--test-images",
            "500",
            "--metrics",
            metrics()};
  }
  std::string metrics() const { return folder_.path() / "metrics.jsonl"; }

  // The output of rank 0.
  std::string parameters(const Finished& finished) const {
    EXPECT_EQ(finished.exit_code, 0) << finished.error << finished.output;
    json summary;
    std::ifstream lines(metrics());
    for (std::string line; std::getline(lines, line);) summary = json::parse(line, nullptr, false);
    fs::remove(metrics());
    EXPECT_TRUE(summary.is_object() && summary.contains("parameters_sha256")) << finished.output;
    return summary.is_object() ? summary.value("parameters_sha256", std::string("none"))
                               : std::string("no summary");
  }
  std::string expected(int ranks) const {
    return parameters(
        run(paceline_run({"-n", std::to_string(ranks)}, example()), Deadline::in(90s)));
  }
};

class SameParametersUnder : public SameParameters,
                            public ::testing::WithParamInterface<Launcher> {};

TEST_P(SameParametersUnder, AnotherLauncher) {
  NEED(GetParam().needs);
  const std::string own = expected(2);
  EXPECT_EQ(own.size(), 64U) << own;
  EXPECT_EQ(parameters(run_by(GetParam(), 2, example(), Deadline::in(90s))), own);
}

INSTANTIATE_TEST_SUITE_P(Of, SameParametersUnder, ::testing::ValuesIn(launchers_of_others()),
                         [](const auto& one) { return one.param.name; });

TEST_F(SameParameters, UnderSrunOnTwoNodes) {
  Slurm::SetUp();
  if (IsSkipped() || HasFatalFailure()) return;
  auto words = example();
  words.insert(words.begin(), {"-N2", "-n4"});
  const std::string theirs = parameters(srun(words));
  EXPECT_EQ(theirs, expected(4));
  Slurm::TearDown();
}

TEST_F(SameParameters, UnderTfConfig) {
  std::vector<std::unique_ptr<Process>> processes;
  for (const char* task :
       {R"({"type": "worker", "index": 0})", R"({"type": "chief", "index": 0})"}) {
    const auto config = fmt::format(
        R"({{"cluster": {{"chief": ["localhost:26836"], "worker": ["localhost:26837"]}}, "task": {}}})",
        task);
    processes.push_back(std::make_unique<Process>(
        ProcessOptions{.command = example(), .environment = {{"TF_CONFIG", config}}}));
  }
  Finished finished{.exit_code = 0};
  for (auto& process : processes) finished.exit_code |= exit_code(process->wait(Deadline::in(90s)));
  const std::string theirs = parameters(finished);
  EXPECT_EQ(theirs, expected(2));
}

#endif

// SIGTERM through the launcher: all ranks save the same step and end; the run goes on from it under
// `paceline run` and ends as if nothing had been.
void expect_stop_and_resume_under(ProcessOptions launcher, int ranks,
                                  const std::function<void(Process&)>& stop) {
  const TemporaryFolder folder, temporary;
  const std::vector<std::string> model = {"--model", "mlp"};
  const TrainingFiles files(folder.path());
  const auto program = files.command(200, 1000, model);
  launcher.command.insert(launcher.command.end(), program.begin(), program.end());
  launcher.environment["TMPDIR"] = temporary.path();
  {
    Process run(launcher);
    ASSERT_TRUE(reaches(run, files, 30)) << run.error() << run.output();
    stop(run);
    EXPECT_NE(exit_code(run.wait(Deadline::in(60s))), 0) << run.error();
  }
  const auto saved = files.saved_steps();
  ASSERT_EQ(saved.size(), 1U);
  EXPECT_LT(saved.front(), 200);
  const TrainingRun::Options options{
      .ranks = ranks, .example = model, .steps = 200, .every = 1000, .resume = true};
  TrainingRun again(options, folder.path());
  EXPECT_EQ(again.exit_code(), 0) << again.process().error();
  EXPECT_EQ(again.sha256(), undisturbed_sha256(options));
}

TEST(StopAndResume, UnderTorchrun) {
  NEED(python_with_torch());
  expect_stop_and_resume_under(
      {.command = {python_with_torch(), "-m", "torch.distributed.run", "--standalone",
                   "--nproc-per-node", "2", "--no-python"}},
      2, [](Process& launcher) { launcher.send(SIGTERM); });
}

class SlurmStops : public Slurm {};

// scancel does what happens before the end of a job's time with --signal=TERM@120.
TEST_F(SlurmStops, UnderSrun) {
  const std::map<std::string, std::string> slurm = {{"SLURM_CONF", folder_.path() / "slurm.conf"}};
  expect_stop_and_resume_under(
      {.command = {"srun", "-N2", "-n2"}, .environment = slurm}, 2, [&](Process&) {
        const Finished told = test::run(
            {.command = {"scancel", "--signal=TERM", "--user", "root"}, .environment = slurm});
        EXPECT_EQ(told.exit_code, 0) << told.error;
      });
}

class SlurmRequeues : public Slurm {
 protected:
  void SetUp() override {
    if (!is_nightly()) GTEST_SKIP() << "60 s: runs with PACELINE_NIGHTLY=1";
    start_nodes(/*seconds_of_credentials=*/10);
  }
  Finished slurm(std::vector<std::string> words) {
    return run({.command = std::move(words),
                .environment = {{"SLURM_CONF", folder_.path() / "slurm.conf"}}},
               Deadline::in(30s));
  }
};

// The script has no --resume: SLURM_RESTART_COUNT makes it a later generation, which always goes
// on.
TEST_F(SlurmRequeues, AJobThatIsPutBackIntoTheQueueGoesOnWhereItWasStopped) {
  const TemporaryFolder folder;
  const TrainingFiles files(folder.path());
  const std::vector<std::string> model = {"--model", "linear", "--batch-size", "512"};
  const std::string script = folder.file("job"), log = folder.file("log");
  std::string command = "#!/bin/bash\nexec srun -N2 -n2";
  for (const std::string& word : files.command(1500, 2000, model)) command += " " + word;
  std::ofstream(script) << command << "\n";
  const Finished submitted = slurm({"sbatch", "--parsable", "--requeue", "-N2", "-n2",
                                    "--open-mode=append", "--output", log, script});
  ASSERT_EQ(submitted.exit_code, 0) << submitted.error;
  const std::string job = lines_of(submitted.output).front();
  Process reader({.command = {"tail", "-n", "+1", "-F", log}});
  ASSERT_TRUE(reaches(reader, files, 30)) << reader.output();
  const Finished requeued = slurm({"scontrol", "requeue", job});
  ASSERT_EQ(requeued.exit_code, 0) << requeued.error;
  ASSERT_TRUE(reader.wait_for_output("going on from", Deadline::in(200s))) << reader.output();
  ASSERT_TRUE(reaches(reader, files, 1500)) << reader.output();
  while (slurm({"squeue", "--noheader"}).output != "") ASSERT_TRUE(is_alive(reader.pid()));
  EXPECT_EQ(files.saved_steps().size(), 2U) << "where it was stopped, and its end";
  EXPECT_EQ(files.sha256(), undisturbed_sha256({.example = model, .steps = 1500}));
}

}  // namespace
}  // namespace paceline::test
