// Optimizers in checkpoints.
#include "paceline/torch/optimizers/optimizers.h"
#include "tests/torch/checkpointing/small_run.h"

namespace paceline {
namespace {

template <typename Kind, typename Options>
void expect_optimizer_goes_on(const Options& options) {
  Training training;
  training.optimizer = [options](std::vector<at::Tensor> parameters) {
    std::vector<optim::OptimizerParamGroup> groups;
    groups.emplace_back(std::vector<at::Tensor>(parameters.begin(), parameters.begin() + 2));
    groups.emplace_back(std::vector<at::Tensor>(parameters.begin() + 2, parameters.end()));
    auto other = std::make_unique<Options>(options);
    other->lr(options.lr() / 2);
    groups.back().set_options(std::move(other));
    return std::make_unique<Kind>(groups, options);
  };
  expect_same_bits_after_resuming(training, /*end=*/28);
}

TEST(OptimizerPart, EachOptimizerGoesOnWithItsOptionsAndItsState) {
  expect_optimizer_goes_on<optim::SGD>(optim::SGDOptions(0.05));
  expect_optimizer_goes_on<optim::SGD>(
      optim::SGDOptions(0.05).momentum(0.9).nesterov(true).weight_decay(0.01));
  expect_optimizer_goes_on<optim::Adam>(optim::AdamOptions(0.01).amsgrad(true));
  expect_optimizer_goes_on<optim::AdamW>(optim::AdamWOptions(0.01).betas({0.8, 0.99}));
  expect_optimizer_goes_on<optim::RMSprop>(
      optim::RMSpropOptions(0.01).momentum(0.5).centered(true));
  expect_optimizer_goes_on<optim::Adagrad>(optim::AdagradOptions(0.05).lr_decay(0.1));
  expect_optimizer_goes_on<optimizers::LARS>(optimizers::LARSOptions(2).trust_coefficient(0.01));
  expect_optimizer_goes_on<optimizers::LAMB>(optimizers::LAMBOptions(0.02).betas({0.8, 0.99}));
}

TEST(OptimizerPart, OptimizersOfEachParameterAreSavedLikeOneOfAll) {
  const TemporaryFolder folder;
  Training training{.directory = folder.file("run")};
  Training own = training;
  own.parallel.optimizer = [](const at::Tensor& parameter) {
    return std::make_unique<optim::SGD>(std::vector<at::Tensor>{parameter},
                                        optim::SGDOptions(0.05).momentum(0.9));
  };
  for (const char* schedule : {"buckets", "barrier", "wait_free", "priority"}) {
    own.parallel.schedule = schedule;
    expect_same_bits_after_resuming(own);
  }
  const std::string expected = training.in(folder.file("whole")).run(20);
  training.run(10);
  EXPECT_EQ(own.in(training.directory).resumed().run(20), expected);
}

}  // namespace
}  // namespace paceline
