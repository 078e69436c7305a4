// The accuracy that compression costs (nightly): Fashion-MNIST's cnn on two workers, three seeds
// each.
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/launched.h"
#include "tests/support/nightly.h"
#include "tests/support/temporary_folder.h"

namespace paceline::test {
namespace {

using Options = std::vector<std::string>;

// The mean of three seeds.
double accuracy(const Options& options) {
  constexpr int kSeeds = 3;
  double sum = 0;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    const TemporaryFolder folder;
    const std::string metrics = folder.file("metrics.jsonl");
    Options command = {binary("fashion_mnist"),
                       "--model",
                       "cnn",
                       "--threads",
                       "1",
                       "--epochs",
                       "5",
                       "--metrics",
                       metrics,
                       "--seed",
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

// Settings are the published ones. Methods with error feedback use plain SGD, because momentum
// would enlarge their late gradients once more (gtop_k and PowerSGD were published with momentum).
// Methods with a momentum of their own, and unbiased ones that keep nothing back, follow their
// papers. QSGD's experiments divide by the largest value of a bucket, 1-bit SGD's have a pair of
// means for each column. 1-bit Adam needs a variance above 0 for every element.
TEST(CompressionAccuracy, IsThatOfTrainingWithoutWithinHalfAPercent) {
  if (!is_nightly()) GTEST_SKIP() << "45 minutes: runs with PACELINE_NIGHTLY=1";
  const Options momentum = {"--learning-rate", "0.05", "--momentum", "0.9"},
                plain = {"--learning-rate", "0.5", "--momentum", "0"},
                own_momentum = {"--learning-rate", "0.05", "--momentum", "0"},
                adam = {"--learning-rate", "0.001", "--momentum", "0"};
  const std::vector<std::pair<std::string, Options>> settings = {
      {"fp16", momentum},
      {"bf16", momentum},
      {"int8", momentum},
      {"qsgd:bits=4,norm=max", momentum},
      {"terngrad:clip=2.5", momentum},
      {"power_sgd:rank=2", momentum},
      {"gtop_k:ratio=0.01", momentum},
      {"one_bit:means=columns", plain},
      {"ef_sign", plain},
      {"top_k:ratio=0.01", plain},
      {"top_k:ratio=0.01/0.003/0.001,min_compress_bytes=0", plain},
      {"random_k:ratio=0.01", plain},
      {"adacomp", plain},
      {"dgc:ratio=0.01,warm_up_steps=0", own_momentum},
      {"one_bit_adam:freeze_step=1000,epsilon=1e-4", adam},
  };
  const double uncompressed = accuracy(momentum);
  for (const auto& [compression, how] : settings) {
    Options options = {"--compression", compression};
    options.insert(options.end(), how.begin(), how.end());
    EXPECT_GE(accuracy(options), uncompressed - 0.005) << compression;
  }
}

}  // namespace
}  // namespace paceline::test
