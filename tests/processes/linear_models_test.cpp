// The example on linear models, alone and on workers, and what it says to wrong options. Runs
// linear_models.
#ifdef PACELINE_WITH_TORCH
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include <nlohmann/json.hpp>

#include "tests/support/launched.h"
#include "tests/support/temporary_folder.h"

namespace paceline::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using Words = std::vector<std::string>;

Words linear_models(const Words& options) {
  Words command = {binary("linear_models")};
  command.insert(command.end(), options.begin(), options.end());
  return command;
}

// Forty samples of three features, whose label is the sign of the first.
std::string small_file(const TemporaryFolder& folder) {
  std::ofstream file(folder.file("small.svm"));
  for (int i = 0; i < 40; ++i)
    file << (i % 2 == 0 ? "1 1:1" : "-1 1:-1") << " 2:" << 0.1 * (i % 7) << " 3:0.5\n";
  return folder.file("small.svm");
}

std::vector<json> records_of(const std::string& path) {
  std::vector<json> records;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) records.push_back(json::parse(line));
  return records;
}

TEST(LinearModels, WorkersTellEachRoundAndTheSummary) {
  const TemporaryFolder folder;
  const std::string metrics = folder.file("metrics");
  const Finished finished = run(paceline_run(
      {"-n", "2"},
      linear_models({"--rounds", "4", "--solver", "cocoa_plus:passes=2", "--metrics", metrics})));
  ASSERT_EQ(finished.exit_code, 0) << finished.error;
  EXPECT_THAT(finished.output, HasSubstr("[0] round    4  primal 0.2310"));
  const auto records = records_of(metrics);
  ASSERT_EQ(records.size(), 5u);
  const json& summary = records.back();
  EXPECT_EQ(summary["event"], "summary");
  EXPECT_EQ(summary["world_size"], 2);
  EXPECT_EQ(summary["solver"], "cocoa_plus:passes=2,order=permutation");
  EXPECT_EQ(summary["samples"], 27992);
  EXPECT_EQ(summary["features"], 12544);
  EXPECT_EQ(summary["bytes"], 4 * 8 * 12544);
  EXPECT_LT(summary["gap"], 1e-3);
  EXPECT_NEAR(summary["test_accuracy"], 0.861, 0.004);
}

TEST(LinearModels, AFileOfSamplesIsEnoughAndEveryTenthIsHeldOut) {
  const TemporaryFolder folder;
  const std::string metrics = folder.file("metrics");
  const Finished finished =
      run({.command = linear_models({"--data", small_file(folder), "--solver", "scd", "--l1",
                                     "0.01", "--loss", "logistic", "--metrics", metrics})});
  ASSERT_EQ(finished.exit_code, 0) << finished.error;
  const json summary = records_of(metrics).back();
  EXPECT_EQ(summary["samples"], 36);
  EXPECT_EQ(summary["test_accuracy"], 1.0);
  EXPECT_EQ(summary["bytes"], 0);
}

TEST(LinearModels, WrongOptionsEndWithTwoAndSayWhatIsRight) {
  const TemporaryFolder folder;
  const std::string file = small_file(folder), missing = folder.file("none.svm");
  const std::vector<std::pair<Words, std::string>> cases = {
      {{"--solver", "sdcaa"}, "there is no solver 'sdcaa'; there are admm"},
      {{"--solver", "admm:rho=1"}, "admm has no setting 'rho'; it has penalty"},
      {{"--loss", "hinges"}, "there is no loss 'hinges'; there are absolute"},
      {{"--split", "random"}, "there are shuffled, contiguous"},
      {{"--l1", "1"}, "cocoa_plus has no l1"},
      {{"--l2", "-1"}, "l2 is -1"},
      {{"--data", file, "--label", "genesis"}, "--label is for --data kjv"},
      {{"--data", missing}, "none.svm"},
      {{"--label", "gospel"}, "testament"},
      {{"--rounds", "0"}, "--rounds"},
  };
  for (const auto& [options, said] : cases) {
    const Finished finished = run({.command = linear_models(options)});
    EXPECT_EQ(finished.exit_code, 2) << finished.output;
    EXPECT_THAT(finished.error, HasSubstr(said));
  }
}

TEST(LinearModels, HelpTellsEverySolverAndLoss) {
  const Finished help = run({.command = linear_models({"--help"})});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* word : {"feature_split", "hogwild", "gamma=1", "held out", "paceline run -n 4"})
    EXPECT_THAT(help.output, HasSubstr(word));
}

}  // namespace
}  // namespace paceline::test
#endif
