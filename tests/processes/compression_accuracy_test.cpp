// What compression costs in accuracy (nightly): Fashion-MNIST's cnn on two workers, three seeds
// each.
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/launched.h"
#include "tests/support/nightly.h"
#include "tests/support/temporary_folder.h"

namespace paceline::test {
namespace {

// The mean of three seeds.
double accuracy(std::vector<std::string> options) {
  constexpr int kSeeds = 3;
  double sum = 0;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    const TemporaryFolder folder;
    const std::string metrics = folder.file("metrics.jsonl");
    std::vector<std::string> command = {
        binary("fashion_mnist"), "--model", "cnn", "--threads", "1", "--metrics", metrics, "--seed",
        std::to_string(seed)};
    command.insert(command.end(), options.begin(), options.end());
    Process run(paceline_run({"-n", "2"}, command));
    EXPECT_EQ(exit_code(run.wait(Deadline::in(900s))), 0) << run.error();
    nlohmann::json summary;
    std::ifstream lines(metrics);
    for (std::string line; std::getline(lines, line);) summary = nlohmann::json::parse(line);
    sum += summary.at("test_accuracy").get<double>();
  }
  return sum / kSeeds;
}

// Methods with a momentum of their own are for plain SGD.
struct Setting {
  std::string compression;
  std::vector<std::string> options = {};
};

TEST(CompressionAccuracy, IsThatOfTrainingWithoutWithinHalfAPercent) {
  if (!is_nightly()) GTEST_SKIP() << "an hour: scripts/nightly";
  const std::vector<Setting> settings = {
      {"fp16"},
      {"bf16"},
      {"int8"},
      {"qsgd"},
      {"terngrad"},
      {"one_bit"},
      {"ef_sign"},
      {"top_k:ratio=0.01"},
      {"random_k:ratio=0.01"},
      {"gtop_k:ratio=0.01"},
      {"power_sgd:rank=2"},
      {"dgc:ratio=0.01", {"--momentum", "0"}},
  };
  const double uncompressed = accuracy({});
  for (const Setting& setting : settings) {
    std::vector<std::string> options = {"--compression", setting.compression};
    options.insert(options.end(), setting.options.begin(), setting.options.end());
    EXPECT_GE(accuracy(options), uncompressed - 0.005) << setting.compression;
  }
}

}  // namespace
}  // namespace paceline::test
