// The examples as pipelines: stages, micro-batches, and both beside replicas and shared layers.
// Runs fashion_mnist and tiny_gpt.
#ifdef PACELINE_WITH_TORCH
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/launched.h"
#include "tests/support/nightly.h"
#include "tests/support/temporary_folder.h"

namespace paceline::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using StagedWords = std::vector<std::string>;

StagedWords words_and(StagedWords first, const StagedWords& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

struct StagedRun {
  std::vector<double> losses;  // by step
  json summary;
  std::string saved;   // the file of --save
  std::string output;  // of the launcher
};

// `workers`: 0, without the launcher.
StagedRun staged_run(int workers, const StagedWords& command, std::chrono::seconds within = 60s) {
  const TemporaryFolder folder;
  const StagedWords all =
      words_and(command, {"--threads", "1", "--metrics", folder.file("metrics")});
  ProcessOptions process{.command = all};
  if (workers > 0) process = paceline_run({"-n", std::to_string(workers)}, all);
  const Finished finished = run(process, Deadline::in(within));
  EXPECT_EQ(finished.exit_code, 0) << finished.error;
  StagedRun told{.output = finished.output};
  std::ifstream metrics(folder.file("metrics"));
  for (std::string line; std::getline(metrics, line);) {
    const json record = json::parse(line);
    if (record["event"] == "step") {
      const json& loss = record[record.contains("loss") ? "loss" : "loss_of_rank_0"];
      told.losses.push_back(loss.is_number() ? loss.get<double>() : std::nan(""));
    }
    if (record["event"] == "summary") told.summary = record;
  }
  return told;
}

StagedRun staged_fashion(int workers, const StagedWords& options, const char* steps = "10") {
  const TemporaryFolder folder;
  StagedRun told =
      staged_run(workers, words_and({binary("fashion_mnist"), "--steps", steps, "--test-images",
                                     "64", "--save", folder.file("saved")},
                                    options));
  std::ifstream saved(folder.file("saved"), std::ios::binary);
  told.saved.assign(std::istreambuf_iterator<char>(saved), {});
  return told;
}

// A model that trains in a second.
StagedRun plain_gpt(int workers, const StagedWords& options) {
  return staged_run(workers, words_and({binary("tiny_gpt"), "--features", "32", "--layers", "2",
                                        "--length", "16", "--kv-heads", "2", "--batch-size", "8",
                                        "--dtype", "float64", "--steps", "10"},
                                       options));
}

StagedRun staged_gpt(int workers, const StagedWords& options, const char* micro_batches = "4") {
  return plain_gpt(workers,
                   words_and({"--micro-batches", micro_batches, "--dropout", "0.1"}, options));
}

void expect_bits_of_one(const StagedRun& staged, const StagedRun& one) {
  EXPECT_EQ(staged.summary["parameters_sha256"], one.summary["parameters_sha256"]);
  EXPECT_EQ(staged.summary["test_accuracy"], one.summary["test_accuracy"]);
  EXPECT_EQ(staged.losses, one.losses);
  EXPECT_FALSE(one.saved.empty());
  EXPECT_TRUE(staged.saved == one.saved);
}

void expect_losses_of_one(const StagedRun& staged, const StagedRun& one) {
  ASSERT_GE(one.losses.size(), 4u);
  ASSERT_EQ(staged.losses.size(), one.losses.size());
  for (std::size_t i = 0; i < one.losses.size(); ++i)
    EXPECT_NEAR(staged.losses[i], one.losses[i], 1e-9) << "step " << i + 1;
}

// 128 images of 1024 features of 4 bytes go over the cut of the mlp, and their gradients back;
// 3136 features over that of the cnn.
TEST(StagedFashion, HasTheBitsOfOneProcessAndSendsTheActivationsOfTheCutsAlone) {
  const StagedRun mlp = staged_fashion(0, {"--model", "mlp", "--micro-batches", "4"});
  EXPECT_EQ(mlp.summary["cut_bytes_per_step"], 0);
  const StagedRun staged = staged_fashion(
      2, {"--model", "mlp", "--micro-batches", "4", "--layout", "pp=2", "--pipeline", "1f1b"});
  expect_bits_of_one(staged, mlp);
  EXPECT_EQ(staged.summary["cut_bytes_per_step"], 1'048'576);
  EXPECT_EQ(staged.summary["live_activations"], json({2, 1}));
  EXPECT_EQ(staged.summary["micro_batches"], 4);
  EXPECT_EQ(staged.summary["schedule"], "1f1b");
  EXPECT_GT(staged.summary["bubble"], 0);
  EXPECT_LT(staged.summary["bubble"], 1);

  const StagedRun cnn =
      staged_fashion(0, {"--model", "cnn", "--micro-batches", "4", "--optimizer", "adamw"});
  const StagedRun cut =
      staged_fashion(2, {"--model", "cnn", "--micro-batches", "4", "--optimizer", "adamw",
                         "--layout", "pp=2", "--pipeline", "gpipe", "--partition", "0-5,6-8"});
  expect_bits_of_one(cut, cnn);
  EXPECT_EQ(cut.summary["cut_bytes_per_step"], 3'211'264);
  EXPECT_EQ(cut.summary["live_activations"], json({4, 4}));
}

// tiny_gpt's layers are shared by day.
TEST(StagedFashion, ReplicasAndSharedLayersOfStagesTrainAsOneProcessDoes) {
  const StagedWords mlp = {"--model",          "mlp", "--dtype",      "float64",
                           "--micro-batches",  "2",   "--batch-size", "32",
                           "--evaluate-every", "2"};
  const StagedRun one = staged_fashion(0, mlp, "4");
  expect_losses_of_one(
      staged_fashion(4, words_and(mlp, {"--layout", "dp=2,pp=2", "--zero", "1"}), "4"), one);
  if (!is_nightly()) return;
  expect_losses_of_one(staged_fashion(4, words_and(mlp, {"--layout", "pp=2,tp=2"}), "4"), one);
}

TEST(StagedFashion, OfAResNet18HasTheBitsOfOneProcess) {
  const StagedWords resnet = {"--model", "resnet18", "--batch-size", "4", "--micro-batches", "2"};
  const StagedRun one = staged_fashion(0, resnet, "2");
  const std::vector<std::string> schedules =
      is_nightly() ? std::vector<std::string>{"sequential", "gpipe", "1f1b", "interleaved:chunks=2",
                                              "zero_bubble"}
                   : std::vector<std::string>{"1f1b"};
  for (const std::string& schedule : schedules) {
    SCOPED_TRACE(schedule);
    expect_bits_of_one(staged_fashion(2,
                                      words_and(resnet, {"--layout", "pp=2", "--pipeline", schedule,
                                                         "--recompute", "full"}),
                                      "2"),
                       one);
  }
}

TEST(StagedFashion, ByPipedreamIsAsAccurateAsInStepWithinAPoint) {
  if (!is_nightly()) GTEST_SKIP() << "five minutes: runs with PACELINE_NIGHTLY=1";
  const auto mean_accuracy = [](const std::string& schedule) {
    double sum = 0;
    for (const char* seed : {"1", "2", "3"}) {
      sum += staged_run(2,
                        {binary("fashion_mnist"), "--model", "cnn", "--batch-size", "128",
                         "--epochs", "1", "--learning-rate", "0.05", "--momentum", "0.9", "--seed",
                         seed, "--layout", "pp=2", "--pipeline", schedule},
                        600s)
                 .summary["test_accuracy"]
                 .get<double>();
    }
    return sum / 3;
  };
  EXPECT_NEAR(mean_accuracy("pipedream"), mean_accuracy("1f1b"), 0.01);
}

// Two workers take turns on the first stage.
TEST(StagedFashion, WorkersOfAReplicatedStageTakeTurns) {
  const StagedRun staged =
      staged_fashion(3, {"--model", "mlp", "--pipeline", "pipedream", "--partition", "0-2x2,3-5"});
  EXPECT_EQ(staged.summary["layout"], "pp=3");
  EXPECT_EQ(staged.summary["stages"], 2);
  EXPECT_EQ(staged.summary["live_activations"], json({2, 2, 1}));
  EXPECT_FALSE(staged.saved.empty());
}

// Both workers have the head; one of them tells the loss.
TEST(StagedGpt, WorkersOfAReplicatedLastStageEvaluateAndSample) {
  const StagedWords words = {"--pipeline", "pipedream", "--sample", "20", "--layout", "pp=2"};
  const double divided =
      staged_gpt(2, words_and(words, {"--partition", "0-2,3-5"}), "1").summary["held_out_loss"];
  const double replicated =
      staged_gpt(2, words_and(words, {"--partition", "0-5x2"}), "1").summary["held_out_loss"];
  EXPECT_NEAR(replicated / divided, 1, 0.3);  // a sum over both workers is twice as large
}

TEST(StagedGpt, TrainsEvaluatesAndSamplesAsOneProcessOnEveryLayout) {
  const auto sampled = [](const std::string& output) {
    std::string text;  // without the launcher's "[0] "
    for (const std::string& line : lines_of(output))
      text += (line.starts_with("[0] ") ? line.substr(4) : line) + "\n";
    return text.substr(text.find("---\n"));
  };
  const StagedRun one = staged_gpt(0, {"--sample", "20"});
  const StagedRun staged =
      staged_gpt(2, {"--sample", "20", "--layout", "pp=2", "--pipeline", "1f1b"});
  expect_losses_of_one(staged, one);
  EXPECT_EQ(sampled(staged.output), sampled(one.output));
  EXPECT_NEAR(staged.summary["held_out_loss"], one.summary["held_out_loss"], 1e-9);
  // 8 sequences of 16 characters of 32 features of 8 bytes.
  EXPECT_EQ(staged.summary["cut_bytes_per_step"], 2 * 8 * 16 * 32 * 8);
  std::vector<StagedWords> layouts = {{"--layout", "dp=2,pp=2", "--zero", "1"},
                                      {"--layout", "pp=2,tp=2", "--sequence-parallel"}};
  if (is_nightly()) layouts.push_back({"--layout", "pp=2,cp=2", "--pipeline", "gpipe"});
  for (const StagedWords& layout : layouts) {
    SCOPED_TRACE(testing::PrintToString(layout));
    const StagedRun told = staged_gpt(4, layout);
    expect_losses_of_one(told, one);
    EXPECT_NEAR(told.summary["held_out_loss"], one.summary["held_out_loss"], 1e-9);
  }
}

struct RestOfRun {
  StagedWords layout;
  std::size_t first, saves_at;
};

// A run goes on from what the one before has saved last but its end.
template <typename Train>
void expect_each_goes_on(const std::vector<RestOfRun>& chain, const Train& train) {
  const TemporaryFolder folder;
  std::vector<double> losses;
  for (const auto& [layout, first, saves_at] : chain) {
    SCOPED_TRACE(testing::PrintToString(layout));
    StagedWords words = words_and(layout, {"--checkpoint-dir", folder.file("run"),
                                           "--checkpoint-every", std::to_string(saves_at)});
    if (first > 0) words.emplace_back("--resume");
    const StagedRun run = train(layout.empty() ? 0 : layout[1].back() - '0', words);
    if (first == 0) losses = run.losses;
    ASSERT_EQ(losses.size(), 10u);
    ASSERT_EQ(run.losses.size(), 10 - first);
    for (std::size_t i = first; i < 10; ++i)
      EXPECT_NEAR(run.losses[i - first], losses[i], 1e-9) << "step " << i + 1;
    std::filesystem::remove_all(folder.file("run/step-00000010"));
  }
}

TEST(StagedGpt, GoesOnWithOtherStagesAReplicaMoreOrOneProcessAndBack) {
  std::vector<std::vector<RestOfRun>> chains = {{{{"--layout", "pp=2"}, 0, 5},
                                                 {{}, 5, 6},
                                                 {{"--layout", "dp=2"}, 6, 7},
                                                 {{"--layout", "pp=3"}, 7, 8},
                                                 {{"--layout", "pp=2"}, 8, 9}}};
  if (is_nightly())
    chains.push_back({{{"--layout", "tp=2"}, 0, 5},
                      {{"--layout", "pp=2", "--pipeline", "gpipe"}, 5, 6},
                      {{"--layout", "tp=2"}, 6, 7}});
  for (const std::vector<RestOfRun>& chain : chains)
    expect_each_goes_on(
        chain, [](int workers, const StagedWords& words) { return staged_gpt(workers, words); });
}

// Its head is the embedding, of which the stages have two copies.
TEST(StagedGpt, GoesOnFromAProgramWithoutStagesAndBack) {
  expect_each_goes_on({{{}, 0, 5},
                       {{"--layout", "pp=2"}, 5, 6},
                       {{"--layout", "dp=2"}, 6, 7},
                       {{"--layout", "pp=3", "--pipeline", "gpipe"}, 7, 8},
                       {{"--layout", "tp=2"}, 8, 9}},
                      plain_gpt);
}

TEST(StagedTraining, RefusesWhatDoesNotGoWithAPipelineByBothOptions) {
  const auto expect = [](const std::string& program, const StagedWords& options,
                         const StagedWords& says) {
    const Finished finished =
        run({.command = words_and({binary(program), "--layout", "pp=2"}, options)});
    EXPECT_EQ(finished.exit_code, 2) << testing::PrintToString(options);
    for (const std::string& text : says) EXPECT_THAT(finished.error, HasSubstr(text));
  };
  std::vector<StagedWords> refused = {
      {"--synchrony", "local_sgd:period=8"}, {"--zero", "2"}, {"--precision", "o1:dtype=fp16"}};
  if (is_nightly())
    refused.insert(refused.end(), {{"--compression", "fp16"},
                                   {"--aggregate", "server"},
                                   {"--optimizer", "l_bfgs"},
                                   {"--corrupt", "0:-10"}});
  for (const StagedWords& options : refused)
    expect("fashion_mnist", options, {options[0] + " " + options[1], "--layout pp=2"});
  expect("tiny_gpt", {"--zero", "3"}, {"--zero 3", "--layout pp=2"});
  expect("tiny_gpt", {"--pipeline", "1f2b"}, {"--pipeline", "1f1b"});
  expect("fashion_mnist", {"--micro-batches", "0"}, {"--micro-batches"});
}

TEST(StagedTraining, RefusesWhatTheWorkersCannotCut) {
  const std::vector<std::pair<StagedWords, StagedWords>> cases = {
      {{"fashion_mnist", "--model", "linear", "--layout", "pp=2", "--partition", "0-2"}, {"0-2"}},
      {{"fashion_mnist", "--layout", "tp=2", "--micro-batches", "2"}, {"--model cnn"}},
      {{"fashion_mnist", "--layout", "pp=2", "--device", "cuda:0"},
       {"--device cuda:0 does not go with --layout pp=2"}},
      {{"fashion_mnist", "--model", "mlp", "--layout", "tp=2", "--device", "cuda:0"},
       {"--device cuda:0 does not go with --layout tp=2"}},
      {{"tiny_gpt", "--layout", "pp=2", "--batch-size", "4", "--micro-batches", "8"},
       {"--micro-batches 8", "--batch-size 4"}}};
  for (auto [command, says] : cases) {
    command.front() = binary(command.front());
    const Finished finished = run(paceline_run({"-n", "2"}, command));
    EXPECT_EQ(finished.exit_code, 2) << testing::PrintToString(command) << finished.error;
    for (const std::string& text : says) EXPECT_THAT(finished.error, HasSubstr(text));
  }
}

}  // namespace
}  // namespace paceline::test
#endif
