// The example that splits the layers of a small GPT among workers, alone and on layouts, and when a
// worker dies. Runs tiny_gpt.
#ifdef PACELINE_WITH_TORCH
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include <nlohmann/json.hpp>

#include "tests/support/launched.h"
#include "tests/support/nightly.h"
#include "tests/support/temporary_folder.h"

namespace paceline::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using Words = std::vector<std::string>;

Words tiny_gpt(const Words& options) {
  Words command = {binary("tiny_gpt"), "--threads", "1"};
  command.insert(command.end(), options.begin(), options.end());
  return command;
}

// A model that trains in a second, and learns from a file.
const Words kSmallGpt = {"--features", "32", "--layers",     "2", "--length", "16",
                         "--kv-heads", "2",  "--batch-size", "4", "--dtype",  "float64"};

struct GptFigures {
  std::vector<double> losses;
  json summary;
};

GptFigures figures_in(const std::string& path) {
  GptFigures told;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const json record = json::parse(line);
    if (record["event"] == "step") told.losses.push_back(record["loss"]);
    if (record["event"] == "summary") told.summary = record;
  }
  return told;
}

// Steps of the small model on so many workers; 0: without the launcher.
GptFigures trained_gpt(int workers, const std::string& transport, const Words& options) {
  const TemporaryFolder folder;
  Words all = kSmallGpt;
  all.insert(all.end(), {"--steps", "10", "--metrics", folder.file("metrics")});
  all.insert(all.end(), options.begin(), options.end());
  ProcessOptions process{.command = tiny_gpt(all)};
  if (workers > 0) process = paceline_run({"-n", std::to_string(workers)}, tiny_gpt(all));
  if (!transport.empty()) process.environment["PACELINE_TRANSPORT"] = transport;
  const Finished finished = run(process);
  EXPECT_EQ(finished.exit_code, 0) << finished.error;
  return figures_in(folder.file("metrics"));
}

void expect_as_alone(const GptFigures& one, int workers, const std::string& transport,
                     const Words& options) {
  const GptFigures told = trained_gpt(workers, transport, options);
  ASSERT_EQ(told.losses.size(), one.losses.size());
  for (std::size_t i = 0; i < one.losses.size(); ++i)
    EXPECT_NEAR(told.losses[i], one.losses[i], 1e-9) << transport << ", step " << i + 1;
  EXPECT_NEAR(told.summary["held_out_loss"], one.summary["held_out_loss"], 1e-9) << transport;
}

TEST(TinyGptRuns, WorkersThatShareLayersHaveTheLossesOfOneProcessOnEveryTransport) {
  const GptFigures one = trained_gpt(0, "", {});
  ASSERT_EQ(one.losses.size(), 10u);
  EXPECT_EQ(one.summary["layout"], "dp=1");
  expect_as_alone(one, 2, "shm", {"--layout", "tp=2"});
  expect_as_alone(one, 2, "tcp", {"--layout", "tp=2", "--sequence-parallel"});
  expect_as_alone(one, 2, "shm", {"--device", "auto"});
  expect_as_alone(one, 4, "tcp", {"--layout", "tp=4"});
  expect_as_alone(one, 4, "shm", {"--layout", "tp=4", "--sequence-parallel"});
  for (const auto& [transport, zero_stage] : {std::pair{"shm", "0"}, {"shm", "2"}, {"tcp", "3"}}) {
    expect_as_alone(one, 4, transport, {"--layout", "dp=2,tp=2", "--zero", zero_stage});
  }
}

TEST(TinyGptRuns, ACheckpointGoesOnWithAnotherLayoutAndStage) {
  const TemporaryFolder folder;
  const Words saves = {"--checkpoint-dir", folder.file("run"), "--checkpoint-every", "4"};
  const GptFigures one = trained_gpt(0, "", {});
  Words first = saves, then = saves;
  first.insert(first.end(), {"--layout", "dp=2,tp=2", "--zero", "3"});
  then.insert(then.end(), {"--layout", "tp=2", "--resume"});
  trained_gpt(4, "", first);
  std::filesystem::remove_all(folder.file("run/step-00000010"));  // the run ended after step 8
  const GptFigures resumed = trained_gpt(2, "", then);
  ASSERT_EQ(resumed.losses.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(resumed.losses[i], one.losses[8 + i], 1e-9);
}

TEST(TinyGptRuns, WrongOptionsEndWithTwoAndSayWhatIsRight) {
  const std::vector<std::pair<Words, std::string>> cases = {
      {{"--layout", "tp=3"}, "let pp, dp, cp and tp multiply to 2"},
      {{"--layout", "xp=2"}, "xp"},
      {{"--layout", "tp=2", "--heads", "3", "--features", "33"}, "cannot share its 3 heads"},
      {{"--layout", "tp=2", "--length", "15", "--sequence-parallel"}, "2 does not divide 15"},
      {{"--heads", "3"}, "--features 128 is no multiple of --heads 3"},
      {{"--text", "/nowhere"}, "/nowhere"},
      {{"--device", "gpu0"}, "'gpu0' is no device: give cpu, cuda:N, or auto"},
      {{"--device", "cuda:99"}, "CUDA devices in this program: take --device cpu"},
      {{"--device", "cuda:0", "--zero", "1"}, "--device cuda:0 does not go with --zero 1"},
      {{"--device", "cuda:0", "--layout", "tp=2"}, "--device cuda:0 does not go with --layout"},
      {{"--device", "cuda:0", "--layout", "pp=2"}, "--device cuda:0 does not go with --layout"}};
  for (const auto& [options, expected] : cases) {
    const Finished finished = run(paceline_run({"-n", "2"}, tiny_gpt(options)));
    EXPECT_EQ(finished.exit_code, 2) << testing::PrintToString(options);
    EXPECT_THAT(finished.error + finished.output, HasSubstr(expected));
  }
}

std::map<int, pid_t> gpt_workers(const std::string& job_folder) {
  std::map<int, pid_t> workers;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    std::error_code error;
    if (pid <= 0 || std::filesystem::read_symlink(entry.path() / "exe", error) !=
                        std::filesystem::canonical(binary("tiny_gpt")))
      continue;
    if (variable_of(pid, "PACELINE_TEST_FOLDER") == job_folder)
      workers[std::atoi(variable_of(pid, "PACELINE_RANK").c_str())] = pid;
  }
  return workers;
}

// The words of the launcher when rank 1 of two is killed in the middle of its training.
std::string verdict_on_killed(const Words& options, const std::string& transport) {
  const TemporaryFolder folder;
  Words all = {"--metrics", folder.file("metrics"), "--steps", "100000"};
  all.insert(all.end(), options.begin(), options.end());
  ProcessOptions process = paceline_run({"-n", "2"}, tiny_gpt(all));
  process.environment["PACELINE_TRANSPORT"] = transport;
  process.environment["PACELINE_TEST_FOLDER"] = folder.file("");
  Process launcher(process);
  EXPECT_TRUE(launcher.wait_for_output("[0] step 1/100000", Deadline::in(30s)));
  ::kill(gpt_workers(folder.file("")).at(1), SIGKILL);
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(5s))), 137) << launcher.error();
  return launcher.error();
}

// A loss, a norm and the like belong to no layer and no unit.
const std::string kByOperation = "error: [a-z_]+( [a-z0-9]+\\[[0-9]+\\].*)?: rank 1 ";

TEST(TinyGptRuns, AWorkerThatIsKilledIsNamedWithTheLayerOrTheOperationThatWaitedForIt) {
  for (const char* transport : {"shm", "tcp"}) {
    EXPECT_THAT(verdict_on_killed({"--layout", "tp=2"}, transport),
                AllOf(testing::ContainsRegex("in layer '.*split along tp|" + kByOperation),
                      HasSubstr("rank 1 "), HasSubstr("was killed by signal 9")));
  }
}

TEST(TinyGptRuns, AWorkerThatIsKilledIsNamedWithTheUnitOrTheOperationThatWaitedForIt) {
  for (const char* transport : {"shm", "tcp"}) {
    EXPECT_THAT(verdict_on_killed({"--layout", "dp=2", "--zero", "3"}, transport),
                AllOf(testing::ContainsRegex("'(blocks\\.[0-9]|the root)'|" + kByOperation),
                      HasSubstr("rank 1 "), HasSubstr("was killed by signal 9")));
  }
}

// The loss of a text that the model has not seen, after 600 steps with the default options: the
// mean of three seeds.
double held_out_loss(int workers, const Words& options) {
  constexpr int kSeeds = 3;
  double sum = 0;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    const TemporaryFolder folder;
    Words all = {"--seed", std::to_string(seed), "--metrics", folder.file("metrics")};
    all.insert(all.end(), options.begin(), options.end());
    Process training(paceline_run({"-n", std::to_string(workers)}, tiny_gpt(all)));
    EXPECT_EQ(exit_code(training.wait(Deadline::in(900s))), 0) << training.error();
    sum += figures_in(folder.file("metrics")).summary["held_out_loss"].get<double>();
  }
  return sum / kSeeds;
}

TEST(TinyGptRuns, LearnsMoreThanPairsOfCharactersOnEveryLayout) {
  if (!is_nightly()) GTEST_SKIP() << "takes minutes: PACELINE_NIGHTLY=1";
  const double alone = held_out_loss(1, {});
  EXPECT_LT(alone, 2.0);
  for (const Words& options : std::vector<Words>{{"--layout", "tp=2"},
                                                 {"--layout", "tp=2", "--sequence-parallel"},
                                                 {"--layout", "dp=2", "--zero", "3"}}) {
    const double loss = held_out_loss(2, options);
    EXPECT_NEAR(loss / alone, 1, 0.01) << testing::PrintToString(options) << ", alone " << alone;
    RecordProperty(options.back(), std::to_string(loss));
  }
  RecordProperty("alone", std::to_string(alone));
}

}  // namespace
}  // namespace paceline::test
#endif
