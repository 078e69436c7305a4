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

using testing::AllOf;
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

TEST(Layouts, AModelThatIsTooLargeForOneWorkerTrainsOnTwoThatShareIt) {
  const LayoutOptions wide =
      fashion_mnist({"--model", "wide", "--memory-limit", "480MiB", "--momentum", "0",
                     "--batch-size", "64", "--steps", "3"});
  const Finished alone = run({.command = wide});
  EXPECT_EQ(alone.exit_code, 1);
  EXPECT_THAT(alone.error, AllOf(HasSubstr("memory ended"), HasSubstr("are 562 MiB"),
                                 HasSubstr("--layout tp=2: a rank has 282 MiB then")));
  LayoutOptions shared = wide;
  shared.insert(shared.end(), {"--layout", "tp=2"});
  const Finished two = run(paceline_run({"-n", "2"}, shared));
  EXPECT_EQ(two.exit_code, 0) << two.error;
  EXPECT_THAT(two.output, HasSubstr("trained wide for 3 steps with 2 workers"));
}

TEST(Layouts, ADeepModelThatIsTooLargeForOneWorkerTrainsOnTwoThatDivideIt) {
  const LayoutOptions deep =
      fashion_mnist({"--model", "deep", "--memory-limit", "480MiB", "--momentum", "0",
                     "--batch-size", "64", "--steps", "3"});
  const Finished alone = run({.command = deep});
  EXPECT_EQ(alone.exit_code, 1);
  EXPECT_THAT(alone.error, AllOf(HasSubstr("memory ended"), HasSubstr("are 525 MiB")));
  LayoutOptions divided = deep;
  divided.insert(divided.end(), {"--zero", "3"});
  ProcessOptions process = paceline_run({"-n", "2"}, divided);
  process.environment["PACELINE_TRANSPORT"] = "tcp";
  const Finished two = run(process);
  EXPECT_EQ(two.exit_code, 0) << two.error;
  EXPECT_THAT(two.output, HasSubstr("trained deep for 3 steps with 2 workers"));
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
