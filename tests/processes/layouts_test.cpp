// The example on layouts on which workers share the layers of a network. Runs fashion_mnist.
#ifdef PACELINE_WITH_TORCH
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include <nlohmann/json.hpp>

#include "tests/support/launched.h"
#include "tests/support/temporary_folder.h"

namespace paceline::test {
namespace {

using testing::HasSubstr;
using LayoutOptions = std::vector<std::string>;

LayoutOptions fashion_mnist(const LayoutOptions& options) {
  LayoutOptions command = {binary("fashion_mnist"), "--threads", "1", "--test-images", "100"};
  command.insert(command.end(), options.begin(), options.end());
  return command;
}

// The summary of a few steps of the mlp in fp64 on so many workers; 0: without the launcher.
nlohmann::json summary_of_mlp(int workers, const LayoutOptions& options) {
  const TemporaryFolder folder;
  LayoutOptions all = {"--model", "mlp", "--dtype",   "float64",
                       "--steps", "4",   "--metrics", folder.file("metrics"),
                       "--seed",  "3"};
  all.insert(all.end(), options.begin(), options.end());
  ProcessOptions process{.command = fashion_mnist(all)};
  if (workers > 0) process = paceline_run({"-n", std::to_string(workers)}, fashion_mnist(all));
  const Finished finished = run(process);
  EXPECT_EQ(finished.exit_code, 0) << finished.error;
  nlohmann::json last;
  std::ifstream file(folder.file("metrics"));
  for (std::string line; std::getline(file, line);) last = nlohmann::json::parse(line);
  return last;
}

TEST(Layouts, WorkersThatShareTheLayersOfAnMlpTrainAsOneProcessDoes) {
  for (const auto& [workers, layout, optimizer] :
       {std::tuple{2, "tp=2", "sgd"}, {4, "dp=2,tp=2", "adamw"}}) {
    const auto one = summary_of_mlp(0, {"--optimizer", optimizer});
    const auto told = summary_of_mlp(workers, {"--optimizer", optimizer, "--layout", layout});
    EXPECT_NEAR(told["train_loss"], one["train_loss"], 1e-9) << layout;
    EXPECT_EQ(told["test_accuracy"], one["test_accuracy"]) << layout;
  }
}

// Trains within 480 MiB: refused alone, with these words, and done by two workers who share it.
void expect_only_two_can_train(const std::string& model, const std::vector<std::string>& words,
                               const LayoutOptions& shared, const std::string& transport) {
  const LayoutOptions options =
      fashion_mnist({"--model", model, "--memory-limit", "480MiB", "--momentum", "0",
                     "--batch-size", "64", "--steps", "3"});
  const Finished alone = run({.command = options});
  EXPECT_EQ(alone.exit_code, 1);
  EXPECT_THAT(alone.error, HasSubstr("memory ended"));
  for (const std::string& word : words) EXPECT_THAT(alone.error, HasSubstr(word));
  LayoutOptions together = options;
  together.insert(together.end(), shared.begin(), shared.end());
  ProcessOptions process = paceline_run({"-n", "2"}, together);
  process.environment["PACELINE_TRANSPORT"] = transport;
  const Finished two = run(process);
  EXPECT_EQ(two.exit_code, 0) << two.error;
  EXPECT_THAT(two.output, HasSubstr("trained " + model + " for 3 steps with 2 workers"));
}

TEST(Layouts, AModelThatIsTooLargeForOneWorkerTrainsOnTwoThatShareIt) {
  expect_only_two_can_train("wide", {"are 562 MiB", "--layout tp=2: a rank has 282 MiB then"},
                            {"--layout", "tp=2"}, "auto");
}

TEST(Layouts, ADeepModelThatIsTooLargeForOneWorkerTrainsOnTwoThatDivideIt) {
  expect_only_two_can_train("deep", {"are 525 MiB"}, {"--zero", "3"}, "tcp");
}

TEST(Layouts, WhatGoesWithNoSharedLayersIsRefusedByName) {
  const std::vector<std::pair<LayoutOptions, std::string>> cases = {
      {{"--model", "cnn"}, "--model cnn has none that can be shared; mlp, wide and deep have"},
      {{"--model", "mlp", "--optimizer", "lamb"}, "--optimizer lamb looks at whole layers"},
      {{"--model", "mlp", "--synchrony", "local_sgd"}, "synchrony \"local_sgd\" was asked for"},
      {{"--model", "mlp", "--compression", "fp16"}, "compression \"fp16\" was asked for"}};
  for (const auto& [options, expected] : cases) {
    LayoutOptions all = options;
    all.insert(all.end(), {"--layout", "tp=2", "--steps", "1"});
    const Finished finished = run(paceline_run({"-n", "2"}, fashion_mnist(all)));
    EXPECT_EQ(finished.exit_code, 2) << expected;
    EXPECT_THAT(finished.error, HasSubstr(expected));
  }
}

}  // namespace
}  // namespace paceline::test
#endif
