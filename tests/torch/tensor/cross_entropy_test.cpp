#include "paceline/torch/tensor/cross_entropy.h"

#include "tests/torch/tensor/small_layers.h"

namespace paceline::tensor_test {
namespace {

using enum ParallelStyle;

struct Classifier : torch::nn::Module {
  explicit Classifier(const torch::nn::CrossEntropyLossOptions& options) {
    head = register_module("head", Linear(4, 11));
    loss = register_module("loss", CrossEntropyLoss(options));
  }
  Linear head{nullptr};
  CrossEntropyLoss loss{nullptr};
};

void expect_losses_as_in_one_process(const torch::nn::CrossEntropyLossOptions& options,
                                     double scale) {
  const at::Tensor x = numbers(5, {6, 4}) * scale;
  const at::Tensor targets = at::tensor({0, 10, 5, 6, 3, 10}, at::kLong);
  const auto make = [&] { return std::make_shared<Classifier>(options); };
  const auto one = drawn(3, make);
  one->to(at::kDouble);
  const at::Tensor expected = one->loss(one->head(x), targets);
  expected.sum().backward();
  for (const int ranks : {2, 3, 4}) {
    test::run_ranks(ranks, [&](Job& job) {
      DeviceMesh mesh(job, "tp=" + std::to_string(ranks));
      const auto model = drawn(3, make);
      model->to(at::kDouble);
      parallelize(*model, mesh, {{"head", vocabulary}});
      const at::Tensor loss = model->loss(model->head(x), targets);
      EXPECT_LE(distance(loss, expected), 1e-12);
      loss.sum().backward();
      const auto placements = tensor::placements_of(*model);
      const at::Tensor& weight = model->head->weight;
      EXPECT_LE(distance(placements.gathered(weight, weight.grad()), one->head->weight.grad()),
                1e-12);
    });
  }
}

TEST(CrossEntropyOfSplitWords, IsThatOfOneProcessForEveryReduction) {
  using Options = torch::nn::CrossEntropyLossOptions;
  expect_losses_as_in_one_process(Options(), 1);
  expect_losses_as_in_one_process(Options().reduction(torch::kSum), 1);
  expect_losses_as_in_one_process(Options().reduction(torch::kNone), 1);
  expect_losses_as_in_one_process(Options().ignore_index(10), 1);
}

TEST(CrossEntropyOfSplitWords, IsFiniteWhereExponentialsOfTheLogitsAreNot) {
  expect_losses_as_in_one_process({}, 3000);
}

TEST(CrossEntropyOfSplitWords, RefusesWhatItCannotSplit) {
  test::run_ranks(2, [](Job& job) {
    DeviceMesh mesh(job, "tp=2");
    Classifier smooth(torch::nn::CrossEntropyLossOptions().label_smoothing(0.1));
    EXPECT_THAT(misuse_of([&] {
                  parallelize(smooth, mesh, {{"head", vocabulary}});
                }),
                testing::HasSubstr("weight or label_smoothing cannot take logits"));
    Classifier plain({});
    parallelize(plain, mesh, {{"head", vocabulary}});
    EXPECT_THAT(misuse_of([&] {
                  plain.loss(at::ones({2, 11}), at::zeros({2}, at::kLong));
                }),
                testing::HasSubstr("loss 'loss' takes logits [targets, "));
  });
}

}  // namespace
}  // namespace paceline::tensor_test
