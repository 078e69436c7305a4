// Ensemble on Fashion-MNIST beside averaging of parameters. It takes minutes.
#include "paceline/torch/data/data.h"
#include "paceline/torch/strategy/ensemble.h"
#include "tests/support/nightly.h"
#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

constexpr int kEnsembleRanks = 4, kRounds = 10, kOwnSteps = 37, kTaughtSteps = 10;
constexpr int kPeriod = kOwnSteps + kTaughtSteps;  // 470 steps in all
constexpr std::int64_t kOwnBatch = 64;

struct Images {
  at::Tensor x, y;
};

Images images_of(data::Split split) {
  const data::LabelledImages all = data::load_fashion_mnist(split);
  const data::Batch batch = data::take(all, at::arange(all.size()), at::kFloat);
  return {batch.images, batch.labels};
}

nn::Sequential mlp_of(int seed) {
  static std::mutex one_seed;  // torch's stream of random numbers belongs to the process
  const std::lock_guard lock(one_seed);
  torch::manual_seed(static_cast<std::uint64_t>(seed));
  return nn::Sequential(nn::Flatten(), nn::Linear(784, 1024), nn::ReLU(), nn::Linear(1024, 1024),
                        nn::ReLU(), nn::Linear(1024, 10));
}

double share_of_right(const at::Tensor& outputs, const at::Tensor& labels) {
  return outputs.argmax(1).eq(labels).to(at::kDouble).mean().item<double>();
}

// The ensemble's loss is at most the mean of its members' losses, on every batch.
void expect_no_worse_than_members(const at::Tensor& together, const at::Tensor& own,
                                  const Images& test, Communicator& group) {
  for (std::int64_t row = 0; row < test.y.size(0); row += 100) {
    const at::Tensor labels = test.y.narrow(0, row, 100).unsqueeze(1);
    const auto loss = [&](const at::Tensor& probabilities) {
      return -probabilities.narrow(0, row, 100).gather(1, labels).log().mean().item<double>();
    };
    EXPECT_LE(loss(together), group.all_reduce(loss(own)) / kEnsembleRanks + 1e-6) << row;
  }
}

// The accuracy on the test images of the ensemble, or of the mean of replicas.
double accuracy_after(bool with_ensemble, int seed, const Images& training, const Images& test) {
  double found = 0;
  run_ranks(kEnsembleRanks, [&](Job& job) {
    nn::Sequential net = mlp_of(seed);
    DataParallel parallel(
        net, job, {.synchrony = with_ensemble ? "none" : c10::str("local_sgd:period=", kPeriod)});
    torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
    strategy::Ensemble ensemble(*net, job.world());
    const auto forward = [&](const at::Tensor& x) { return net->forward(x); };
    const at::Tensor rows = at::arange(job.rank(), training.y.size(0), kEnsembleRanks);
    const at::Tensor x = training.x.index_select(0, rows), y = training.y.index_select(0, rows);
    at::Generator draw =
        at::detail::createCPUGenerator(static_cast<std::uint64_t>(100 * seed + job.rank()));
    for (int step = 0; step < kRounds * kPeriod; ++step) {
      const bool is_taught = with_ensemble && step % kPeriod >= kOwnSteps;
      if (with_ensemble && step % kPeriod == kOwnSteps) ensemble.relabel(x, forward);
      const double left = 1 - static_cast<double>(step) / (kRounds * kPeriod);
      static_cast<torch::optim::SGDOptions&>(optimizer.param_groups()[0].options()).lr(0.05 * left);
      const at::Tensor some =
          at::randint(rows.numel(), {kOwnBatch}, draw, at::TensorOptions().dtype(at::kLong));
      const at::Tensor logits = net->forward(x.index_select(0, some)),
                       labels = y.index_select(0, some);
      optimizer.zero_grad();
      (is_taught ? ensemble.loss(logits, labels, some)
                 : nn::functional::cross_entropy(logits, labels))
          .backward();
      parallel.step(optimizer);
    }
    const at::NoGradGuard no_grad;
    const at::Tensor together = ensemble.outputs(test.x, forward);
    if (with_ensemble)
      expect_no_worse_than_members(together, at::softmax(net->forward(test.x), 1), test,
                                   job.world());
    const auto shared = parallel.consensus();
    const at::Tensor outputs = with_ensemble ? together : net->forward(test.x);
    if (job.rank() == 0) found = share_of_right(outputs, test.y);
  });
  return found;
}

TEST(EnsembleAccuracy, OnAnMlpIsThatOfLocalSgdAtItsPeriodWithinAPoint) {
  if (!test::is_nightly()) GTEST_SKIP() << "takes minutes: PACELINE_NIGHTLY=1";
  const Images training = images_of(data::Split::train), test = images_of(data::Split::test);
  for (const int seed : {1, 2, 3}) {
    const double mean = accuracy_after(false, seed, training, test);
    const double together = accuracy_after(true, seed, training, test);
    std::printf("seed %d: local_sgd:period=%d %.4f, ensemble %.4f\n", seed, kPeriod, mean,
                together);
    EXPECT_GT(mean, 0.8);
    EXPECT_GE(together, mean - 0.01) << "seed " << seed;
  }
}

}  // namespace
}  // namespace paceline
