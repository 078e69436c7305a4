// The example to copy: a training that is saved, and goes on. Runs mnist.
#ifdef PACELINE_WITH_TORCH
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>

#include "tests/support/launched.h"
#include "tests/support/temporary_folder.h"

namespace paceline::test {
namespace {

using testing::HasSubstr;

std::string content_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Large batches: an epoch of 30 steps, of which the last ten come after the save of step 20.
std::vector<std::string> mnist(const std::vector<std::string>& options) {
  std::vector<std::string> command = {binary("mnist"), "--epochs", "1", "--batch-size", "2000"};
  command.insert(command.end(), options.begin(), options.end());
  return command;
}

TEST(MnistExample, LearnsAndWhatGoesOnFromASaveEndsWithTheSameWeights) {
  const TemporaryFolder folder;
  const std::string saves = folder.file("saves"), trace = folder.file("trace.json"),
                    file = folder.file("weights.pt");
  std::vector<std::string> weights;
  for (const char* given : {"--trace", "--resume"}) {
    std::vector<std::string> options = {"--checkpoints", saves, "--every", "20", "--save", file};
    options.emplace_back(given);
    if (given == std::string("--trace")) options.push_back(trace);
    Process run(paceline_run({"-n", "2"}, mnist(options)));
    ASSERT_EQ(exit_code(run.wait(Deadline::in(120s))), 0) << run.error();
    std::smatch found;
    const std::string output = run.output();
    ASSERT_TRUE(std::regex_search(output, found, std::regex("step 30: test accuracy (0\\.\\d+)")))
        << output;
    EXPECT_GT(std::stod(found[1]), 0.5) << "a guess is right one time in ten";
    weights.push_back(content_of(file));
  }
  EXPECT_FALSE(weights[0].empty());
  EXPECT_TRUE(weights[0] == weights[1]) << "ten steps made twice";
  EXPECT_THAT(content_of(trace), HasSubstr("all_reduce"));
}

TEST(MnistExample, AWrongOptionIsNamedAndTheCodeIsTwo) {
  Process run({.command = {binary("mnist"), "--epoch", "1"}});
  EXPECT_EQ(exit_code(run.wait(Deadline::in(30s))), 2);
  EXPECT_THAT(run.error(), HasSubstr("--epoch"));
}

TEST(MnistExample, AFileThatCannotBeWrittenAtTheEndIsNamedBeforeTheTraining) {
  for (const char* option : {"--trace", "--save"}) {
    Process run(paceline_run({"-n", "2"}, mnist({option, "/no/such/folder/file"})));
    EXPECT_EQ(exit_code(run.wait(Deadline::in(60s))), 2) << option;
    EXPECT_THAT(run.error() + run.output(),
                testing::AllOf(HasSubstr("/no/such/folder/file"), HasSubstr("a folder that exists"),
                               testing::Not(HasSubstr("step 30"))))
        << option;
  }
}

}  // namespace
}  // namespace paceline::test
#endif
