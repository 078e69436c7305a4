// The example under strategies that move parameters, with slow and corrupt ranks. Runs
// fashion_mnist.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/launched.h"
#include "tests/support/temporary_folder.h"

namespace paceline::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr double kElements = 784 * 10 + 10;  // of the model linear

struct Told {
  std::vector<Json> events;
  std::string output;
  const Json& summary() const { return events.back(); }
};

Told train_linear(std::vector<std::string> arguments, const std::string& transport = "auto") {
  const TemporaryFolder folder;
  std::vector<std::string> command = {
      binary("fashion_mnist"), "--model", "linear",       "--threads", "1",
      "--test-images",         "200",     "--batch-size", "32",        "--metrics",
      folder.file("metrics")};
  command.insert(command.end(), arguments.begin(), arguments.end());
  Process run(paceline_run({"-n", "2", "--transport", transport}, command));
  EXPECT_EQ(exit_code(run.wait(Deadline::in(60s))), 0) << run.error();
  Told told{.output = run.output()};
  std::ifstream lines(folder.file("metrics"));
  for (std::string line; std::getline(lines, line);) told.events.push_back(Json::parse(line));
  return told;
}

// The last two steps lie in the middle of a period, so replicas differ at the end; every rank's
// fingerprint of the consensus is compared with rank 0's, and a difference ends the run.
TEST(ExampleUnderASynchrony, TellsItsExchangesExactlyAndEndsWithOneModelOnAllRanks) {
  const Told told =
      train_linear({"--synchrony", "local_sgd:period=4", "--steps", "14", "--forecast", "0.01"});
  const Json& summary = told.summary();
  EXPECT_EQ(summary.at("exchanges"), 3);
  EXPECT_EQ(summary.at("exchanged_bytes"), 3 * 4 * kElements);
  EXPECT_EQ(summary.at("period"), 4);
  EXPECT_GT(summary.at("distance"), 0);
  EXPECT_EQ(summary.at("parameters_sha256").get<std::string>().size(), 64u);
  EXPECT_GT(summary.at("communication_seconds"), 0);
  EXPECT_GT(summary.at("forecast_step_seconds"), 0.01);
  EXPECT_LT(summary.at("forecast_step_seconds"), 0.02);
  EXPECT_THAT(told.output, HasSubstr("local_sgd:period=4: 3 exchanges"));
}

TEST(ExampleUnderASynchrony, HasTheSameBitsInSharedMemoryAndOverTcp) {
  const auto sha256 = [](const std::string& transport) {
    const Told told = train_linear({"--synchrony", "gossip", "--steps", "8"}, transport);
    return told.summary().at("parameters_sha256").get<std::string>();
  };
  EXPECT_EQ(sha256("shm"), sha256("tcp"));
}

// A step of synchronous ends when the slowest rank's does; ranks that train apart do not wait.
TEST(ExampleUnderASynchrony, HasPacedStepsOfAtLeastTheirTimeAndWaitsOnlyWhereItMust) {
  const auto seconds = [](const std::string& synchrony, const std::string& slow) {
    const Told told =
        train_linear({"--synchrony", synchrony, "--steps", "5", "--pace", "20", "--slow", slow});
    return told.events.at(told.events.size() - 2).at("train_seconds").get<double>();
  };
  EXPECT_GE(seconds("synchronous", "drawn:5"), 0.5);
  const double apart = seconds("none", "1:20");
  EXPECT_GE(apart, 0.1);
  EXPECT_LT(apart, 2) << "rank 1 needs two seconds";
}

TEST(ExampleUnderASynchrony, TellsTheTrueLossOfARankThatTrainsOnACorruptOne) {
  const Json summary = train_linear({"--steps", "1", "--corrupt", "0:nan"}).summary();
  EXPECT_TRUE(summary.at("train_loss").is_number());
  EXPECT_NEAR(summary.at("train_loss"), std::log(10), 0.5) << "of a model that knows nothing";
  EXPECT_EQ(summary.at("exchanges"), 1);
  EXPECT_EQ(summary.at("exchanged_bytes"), 4 * kElements) << "a gradient";
}

struct BadText {
  std::vector<std::string> arguments;
  std::vector<std::string> says;
};

TEST(ExampleUnderASynchrony, RefusesTextsThatMeanNothingAndSaysWhatWould) {
  const std::vector<BadText> texts = {
      {{"--synchrony", "locl_sgd"}, {"locl_sgd", "local_sgd"}},
      {{"--synchrony", "local_sgd", "--compression", "fp16"}, {"local_sgd", "compression"}},
      {{"--slow", "0:5"}, {"--slow", "--pace"}},
      {{"--slow", "0:0.5", "--pace", "1"}, {"0:0.5", "RANK:FACTOR"}},
      {{"--slow", "1:5", "--pace", "1"}, {"--slow 1:5", "no rank 1 among 1"}},
      {{"--corrupt", "drawn:2"}, {"drawn:2", "RANK:nan"}},
  };
  for (const BadText& text : texts) {
    std::vector<std::string> command = {binary("fashion_mnist"), "--model", "linear"};
    command.insert(command.end(), text.arguments.begin(), text.arguments.end());
    const Finished ended = run({.command = command});
    EXPECT_EQ(ended.exit_code, 2) << ended.error;
    for (const std::string& said : text.says)
      EXPECT_THAT(ended.output + ended.error, HasSubstr(said));
  }
  const Finished help = run({.command = {binary("fashion_mnist"), "--help"}});
  EXPECT_THAT(help.output, AllOf(HasSubstr("local_sgd"), HasSubstr("push_sum")));
}

TEST(ExampleWithNan, LeavesOutTheStepsOfANanAndCountsThem) {
  for (const char* synchrony : {"synchronous", "local_sgd:period=2"}) {
    const Told told = train_linear(
        {"--synchrony", synchrony, "--steps", "4", "--corrupt", "1:nan", "--non-finite", "skip"});
    EXPECT_EQ(told.summary().at("skipped_steps"), 4) << synchrony;
    EXPECT_TRUE(told.summary().at("train_loss").is_number()) << synchrony;
  }
}

TEST(ExampleWithNan, EndsByTheNameOfTheGradientAndItsRank) {
  Process run(
      paceline_run({"-n", "2"}, {binary("fashion_mnist"), "--model", "linear", "--threads", "1",
                                 "--steps", "4", "--corrupt", "1:nan", "--non-finite", "throw"}));
  EXPECT_NE(exit_code(run.wait(Deadline::in(60s))), 0);
  EXPECT_THAT(run.error(), AllOf(HasSubstr("step 1: the gradient of '"), HasSubstr("on rank 1")));
}

}  // namespace
}  // namespace paceline::test
