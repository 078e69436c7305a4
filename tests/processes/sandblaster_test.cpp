// fashion_mnist by iterations of L-BFGS on all images, whose vectors lie on servers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include <nlohmann/json.hpp>

#include "tests/support/launched.h"
#include "tests/support/nightly.h"
#include "tests/support/temporary_folder.h"

namespace paceline::test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<std::string> sandblaster(const std::vector<std::string>& more) {
  std::vector<std::string> command = {
      binary("fashion_mnist"), "--optimizer", "sandblaster", "--model", "linear", "--threads", "1"};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

std::vector<json> metrics_of(int workers, int servers, const std::vector<std::string>& more) {
  const TemporaryFolder folder;
  const std::string metrics = folder.file("metrics.jsonl");
  std::vector<std::string> all = {"--metrics", metrics};
  all.insert(all.end(), more.begin(), more.end());
  const auto finished = run(paceline_run(
      {"-n", std::to_string(workers), "--servers", std::to_string(servers)}, sandblaster(all)));
  EXPECT_EQ(finished.exit_code, 0) << finished.error;
  std::vector<json> told;
  std::ifstream lines(metrics);
  for (std::string line; std::getline(lines, line);) told.push_back(json::parse(line));
  return told;
}

TEST(SandblasterProcesses, TheLossFallsInEachIterationOnAllImages) {
  const int iterations = is_nightly() ? 30 : 4;
  const auto told = metrics_of(2, 2, {"--steps", std::to_string(iterations)});
  std::vector<double> losses;
  for (const json& line : told)
    if (line.at("event") == "step") losses.push_back(line.at("loss_of_rank_0"));
  EXPECT_EQ(losses.size(), static_cast<std::size_t>(iterations));
  EXPECT_EQ(std::ranges::adjacent_find(losses, std::ranges::less_equal()), losses.end())
      << ::testing::PrintToString(losses);
  ASSERT_FALSE(told.empty());
  EXPECT_GE(told.back().at("test_accuracy").get<double>(), is_nightly() ? 0.8 : 0.6);
}

TEST(SandblasterProcesses, HaveTheSameBitsForAnyNumberOfWorkers) {
  const std::vector<std::string> options = {"--steps",       "2",   "--dtype",   "float64",
                                            "--test-images", "100", "--portion", "2000"};
  const auto alone = metrics_of(1, 2, options), three = metrics_of(3, 2, options);
  ASSERT_FALSE(alone.empty() || three.empty());
  EXPECT_EQ(alone.back().at("parameters_sha256"), three.back().at("parameters_sha256"));
}

TEST(SandblasterProcesses, RefuseByNameWhatDoesNotGoWithThem) {
  const auto refusal = [](const std::vector<std::string>& options,
                          const std::vector<std::string>& servers) {
    std::vector<std::string> all = {"-n", "2"};
    all.insert(all.end(), servers.begin(), servers.end());
    const auto finished = run(paceline_run(all, sandblaster(options)));
    EXPECT_EQ(finished.exit_code, 2);
    return finished.error;
  };
  EXPECT_THAT(refusal({"--compression", "fp16"}, {"--servers", "1"}),
              AllOf(HasSubstr("sandblaster"), HasSubstr("--compression fp16")));
  EXPECT_THAT(refusal({"--checkpoint-dir", "x"}, {"--servers", "1"}),
              HasSubstr("takes no --checkpoint-dir"));
  EXPECT_THAT(refusal({"--portion", "0"}, {"--servers", "1"}),
              HasSubstr("a portion has 0 samples"));
  EXPECT_THAT(refusal({}, {}), HasSubstr("start it with `paceline run --servers N`"));
}

}  // namespace
}  // namespace paceline::test
