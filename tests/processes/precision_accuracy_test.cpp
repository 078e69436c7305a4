// The accuracy that 16 bits cost (nightly): Fashion-MNIST's cnn on two workers, three seeds each.
// It takes 10 minutes where the processor has products of bf16, and an hour and a half elsewhere.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/support/launched.h"
#include "tests/support/nightly.h"
#include "tests/support/temporary_folder.h"

namespace paceline::test {
namespace {

// The mean of three seeds.
double accuracy(const std::string& precision) {
  constexpr int kSeeds = 3;
  double sum = 0;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    const TemporaryFolder folder;
    const std::string metrics = folder.file("metrics.jsonl");
    Process run(paceline_run(
        {"-n", "2"}, {binary("fashion_mnist"), "--model", "cnn", "--threads", "1", "--epochs", "4",
                      "--metrics", metrics, "--seed", std::to_string(seed), "--precision",
                      precision, "--learning-rate", "0.05"}));
    EXPECT_EQ(exit_code(run.wait(Deadline::in(1800s))), 0) << run.error();
    nlohmann::json summary;
    std::ifstream lines(metrics);
    for (std::string line; std::getline(lines, line);) summary = nlohmann::json::parse(line);
    sum += summary.at("test_accuracy").get<double>();
  }
  return sum / kSeeds;
}

TEST(PrecisionAccuracy, IsThatOfFloat32WithinHalfAPercent) {
  if (!is_nightly()) GTEST_SKIP() << "10 to 90 minutes: runs with PACELINE_NIGHTLY=1";
  const double expected = accuracy("none");
  for (const std::string precision : {"o1", "o2"}) {
    const double reached = accuracy(precision);
    EXPECT_GE(reached, expected - 0.005) << precision << ", float32 reaches " << expected;
    RecordProperty(precision, std::to_string(reached));
  }
  RecordProperty("float32", std::to_string(expected));
}

}  // namespace
}  // namespace paceline::test
