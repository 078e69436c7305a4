// Weights that change from step to step, under codecs that remember.
#include <array>
#include <random>

#include "paceline/core/compress/methods/method_catalogue.h"
#include "tests/support/seed.h"
#include "tests/torch/parallel/saved_training.h"
#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

constexpr int kWeightedRanks = 3, kWeightedSteps = 12, kSide = 40;

at::Tensor gradient_of(int step, int rank) {
  at::Generator generator =
      at::detail::createCPUGenerator(test::seed(static_cast<std::uint64_t>(1000 * step + rank)));
  return at::randn({kSide, kSide}, generator, at::TensorOptions());
}

// The weights by rank, at least one of which is not 0: a last batch may have 4 samples where others
// had 512.
std::array<double, kWeightedRanks> weights_in(int step) {
  std::mt19937_64 random(test::seed(77 + static_cast<std::uint64_t>(step)));
  constexpr std::array<double, 5> kWeights = {0, 1, 4, 96, 512};
  std::array<double, kWeightedRanks> weights;
  for (double& weight : weights) weight = kWeights[random() % kWeights.size()];
  if (weights == std::array<double, kWeightedRanks>()) weights[step % kWeightedRanks] = 3;
  return weights;
}

// The sum over the steps of the weighted means, in fp64.
at::Tensor all_that_was_brought() {
  at::Tensor sum = at::zeros({kSide, kSide}, at::kDouble);
  for (int step = 0; step < kWeightedSteps; ++step) {
    const auto weights = weights_in(step);
    double total = 0;
    for (const double weight : weights) total += weight;
    for (int rank = 0; rank < kWeightedRanks; ++rank)
      sum += gradient_of(step, rank).to(at::kDouble) * (weights[rank] / total);
  }
  return sum;
}

// The sum of all steps' results, on rank 0, and the mean of the residuals that ranks still hold.
// `is_alone`: the state holds nothing but residuals that belong to one rank each.
struct Given {
  at::Tensor results = at::zeros({kSide, kSide}, at::kDouble);
  at::Tensor held_back = at::zeros({kSide, kSide}, at::kDouble);
  bool is_alone = true;
};

Given trained_by(const std::string& compression) {
  Given given;
  std::mutex mutex;
  run_ranks(kWeightedRanks, [&](Job& job) {
    nn::Module model;
    at::Tensor parameter = model.register_parameter("p", at::zeros({kSide, kSide}));
    DataParallel parallel(model, job, {.compression = compression});
    for (int step = 0; step < kWeightedSteps; ++step) {
      const double weight = weights_in(step)[static_cast<std::size_t>(job.rank())];
      parameter.mutable_grad().reset();
      parallel.weight(weight);
      if (weight > 0) (parameter * gradient_of(step, job.rank())).sum().backward();
      ASSERT_TRUE(parallel.synchronize());
      if (job.rank() == 0) given.results += parameter.grad().to(at::kDouble);
    }
    const auto bytes = state_of(parallel).own;
    const std::lock_guard lock(mutex);
    for (const auto& kept : compress::saved_state_of(bytes).value().values) {
      given.is_alone &= kept.sharing != compress::StateView::Sharing::chunk;
      if (kept.name != "residual" || kept.sharing != compress::StateView::Sharing::own) continue;
      at::Tensor values = at::empty({static_cast<std::int64_t>(kept.elements())});
      std::memcpy(values.mutable_data_ptr(), kept.values.data(), kept.values.size());
      given.held_back.view({-1}).narrow(0, static_cast<std::int64_t>(kept.begin), values.numel()) +=
          values.to(at::kDouble) / kWeightedRanks;
    }
  });
  return given;
}

// The methods of error feedback whose residuals lie with the ranks, with feedback on.
std::vector<std::string> texts_with_feedback() {
  std::vector<std::string> texts;
  for (const compress::Method& method : compress::built_in_methods()) {
    if (method.outcome != compress::Method::Outcome::mean) continue;
    std::string text = std::string(method.name) + ":min_compress_bytes=0";
    for (const compress::Setting& setting : method.settings)
      if (setting.name == "feedback") text += ",feedback=on";
    texts.push_back(std::move(text));
  }
  return texts;
}

TEST(WeightedCompression, NothingIsLostOrCountedTwiceWhateverTheWeights) {
  const at::Tensor brought = all_that_was_brought();
  std::vector<std::string> kept;
  for (const std::string& text : texts_with_feedback()) {
    const Given given = trained_by(text);
    if (!given.is_alone || given.held_back.eq(0).all().item<bool>()) continue;
    kept.push_back(text.substr(0, text.find(':')));
    const double lost =
        ((given.results + given.held_back - brought).abs().max() / brought.abs().max())
            .item<double>();
    EXPECT_LT(lost, 1e-4) << text;
  }
  EXPECT_THAT(kept, testing::IsSupersetOf(std::vector<std::string>{"top_k", "ef_sign", "one_bit",
                                                                   "power_sgd", "int8"}));
}

// A rank without a batch brings its residual; only a step in which no rank has one sends nothing,
// so that the last turn of a join leaves all codecs unchanged.
TEST(WeightedCompression, AStepInWhichNobodyHasABatchLeavesWhatCodecsKeep) {
  for (const compress::Method& method : compress::built_in_methods()) {
    run_ranks(2, [&](Job& job) {
      nn::Module model;
      at::Tensor parameter = model.register_parameter("p", at::zeros({kSide, kSide}));
      DataParallel parallel(model, job,
                            {.compression = std::string(method.name) + ":min_compress_bytes=0"});
      for (int step = 0; step < 3; ++step) {
        parallel.weight(1);
        (parameter * gradient_of(step, job.rank())).sum().backward();
        ASSERT_TRUE(parallel.synchronize());
      }
      const auto before = state_of(parallel).own;
      parallel.weight(0);
      (parameter * gradient_of(3, job.rank())).sum().backward();
      EXPECT_FALSE(parallel.synchronize());
      EXPECT_TRUE(state_of(parallel).own == before) << method.name;
    });
  }
}

}  // namespace
}  // namespace paceline
