// Error feedback and unbiased codecs must lead training to the same place.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/averaging_run.h"

namespace paceline::compress {
namespace {

constexpr int kWorkers = 4;
constexpr std::size_t kSamples = 40, kWeights = 30;

// Least squares with other data on each rank: the mean gradient is 0 at the optimum, the ranks'
// own ones are not.
class Regression {
 public:
  Regression() {
    const auto truth = test::gradients_of(1, kWeights, 1).front();
    for (int rank = 0; rank < kWorkers; ++rank) {
      const auto seed = static_cast<std::uint64_t>(rank);
      auto& data =
          data_.emplace_back(test::gradients_of(1, kSamples * kWeights, 10 + seed).front());
      const auto noise = test::gradients_of(1, kSamples, 20 + seed).front();
      for (std::size_t row = 0; row < kSamples; ++row) {
        double target = noise[row] * (1.0 + rank);
        for (std::size_t i = 0; i < kWeights; ++i) {
          data[row * kWeights + i] *= 0.5f + static_cast<float>(i) / kWeights;
          target += static_cast<double>(data[row * kWeights + i]) * truth[i];
        }
        targets_.push_back(target);
      }
    }
  }

  double loss(const std::vector<double>& weights) const {
    double sum = 0;
    for (std::size_t at = 0; at < targets_.size(); ++at) sum += std::pow(miss(weights, at), 2);
    return sum / static_cast<double>(2 * targets_.size());
  }

  test::Gradients gradients(const std::vector<double>& weights, double step) const {
    test::Gradients all(kWorkers, std::vector<float>(kWeights));
    for (std::size_t at = 0; at < targets_.size(); ++at) {
      const double factor = step * miss(weights, at) / kSamples;
      for (std::size_t i = 0; i < kWeights; ++i)
        all[at / kSamples][i] += static_cast<float>(factor * static_cast<double>(row(at)[i]));
    }
    return all;
  }

 private:
  const float* row(std::size_t at) const {
    return data_[at / kSamples].data() + at % kSamples * kWeights;
  }
  double miss(const std::vector<double>& weights, std::size_t at) const {
    double sum = -targets_[at];
    for (std::size_t i = 0; i < kWeights; ++i) sum += weights[i] * static_cast<double>(row(at)[i]);
    return sum;
  }

  std::vector<std::vector<float>> data_;  // of each rank
  std::vector<double> targets_;           // of all ranks' rows
};

// The loss after this number of steps, whose length falls.
double trained(const Regression& regression, const std::string& compression, double length) {
  test::AveragingRun run = test::run_of(compression, kWorkers, 10, kWeights / 10);
  std::vector<double> weights(kWeights);
  for (std::uint32_t step = 0; step < 800; ++step) {
    const double now = length / (1 + step / 200.0);
    const auto result = run.step(regression.gradients(weights, now), step).means.front();
    for (std::size_t i = 0; i < kWeights; ++i) weights[i] -= static_cast<double>(result[i]);
  }
  return regression.loss(weights);
}

TEST(CompressedTraining, ReachesWhatDenseTrainingReaches) {
  const Regression regression;
  const double start = regression.loss(std::vector<double>(kWeights));
  const double dense = trained(regression, "power_sgd:dense_steps=1000000,min_rate=1", 0.1);
  struct Training {
    const char* compression;
    double length = 0.1, gap = 1e-3;
  };
  const Training cases[] = {
      {"fp16"},
      {"bf16"},
      {"int8"},
      {"int8:feedback=on"},
      {"qsgd:bucket=16"},
      {"qsgd:bucket=16,feedback=on"},
      {"terngrad"},
      {"one_bit"},
      {"adacomp:bin=10"},
      {"ef_sign"},
      {"ef_sign:path=owners"},
      {"top_k:ratio=0.1"},
      {"top_k:ratio=0.1,indices=leader"},
      {"random_k:ratio=0.1"},
      {"gtop_k:ratio=0.1"},
      {"power_sgd:rank=1,min_rate=1"},
      // Masking takes much of the momentum at such a ratio: farther off in the model too.
      {"dgc:ratio=0.1,warm_up_steps=0", 0.03, 5e-3},
      {"dgc:ratio=0.1,masking=off,warm_up_steps=0", 0.01},
  };
  for (const Training& one : cases) {
    const double loss = trained(regression, one.compression, one.length);
    EXPECT_LT((loss - dense) / (start - dense), one.gap) << one.compression;
  }
}

}  // namespace
}  // namespace paceline::compress
