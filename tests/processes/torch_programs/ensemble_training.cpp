// Ranks that train mlp on Fashion-MNIST apart, and learn from their ensemble, for the nightly test
// of its accuracy; the batches, rates and steps are those of the example fashion_mnist.
//
//   ensemble_training SEED STEPS PERIOD    rank 0 tells a JSON object
//
// In the last quarter of each PERIOD steps, ranks learn from what the ensemble says about samples
// of these very steps. The object has the accuracies of the ensemble and of the mean member on the
// test images, and by how much the ensemble's loss on a batch of these was above the members' mean
// at most.
#include <torch/torch.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "paceline/core/collective/collective.h"
#include "paceline/core/job/job.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/data/data.h"
#include "paceline/torch/parallel/parallel.h"
#include "paceline/torch/strategy/ensemble.h"

namespace {

namespace data = paceline::data;
namespace nn = torch::nn;
using paceline::strategy::Ensemble;

constexpr std::int64_t kBatch = 256, kTestBatch = 500;
constexpr double kRate = 0.05, kMomentum = 0.9;

nn::Sequential make_mlp(std::uint64_t seed) {
  torch::manual_seed(seed);
  return nn::Sequential(nn::Flatten(), nn::Linear(784, 1024), nn::ReLU(), nn::Linear(1024, 1024),
                        nn::ReLU(), nn::Linear(1024, 10));
}

// The samples of the steps [begin, end) on this rank, one after the other.
at::Tensor samples_of(data::GlobalBatches& batches, std::int64_t begin, std::int64_t end) {
  std::vector<at::Tensor> parts;
  for (std::int64_t step = begin; step < end; ++step) parts.push_back(batches.at(step).indices);
  return at::cat(parts);
}

struct Judgement {
  double ensemble = 0, member = 0;  // accuracies
  double worst_excess = -1e9;
};

Judgement judge(paceline::Job& job, nn::Sequential& model, Ensemble& ensemble,
                const data::LabelledImages& test) {
  const torch::NoGradGuard no_grad;
  const auto forward = [&](const at::Tensor& x) { return model->forward(x); };
  const data::Batch all = data::take(test, at::arange(test.size()), at::kFloat);
  const at::Tensor together = ensemble.outputs(all.images, forward),
                   alone = at::softmax(forward(all.images), 1);
  std::vector<double> losses;  // of this member, then of the ensemble, by batch
  for (const at::Tensor* one : {&alone, &together}) {
    const at::Tensor each = -one->to(at::kDouble).gather(1, all.labels.unsqueeze(1)).log();
    for (const at::Tensor& some : each.split(kTestBatch))
      losses.push_back(some.mean().item<double>());
  }
  const auto accuracy = [&](const at::Tensor& one) {
    return one.argmax(1).eq(all.labels).to(at::kDouble).mean().item<double>();
  };
  losses.push_back(accuracy(alone));
  std::vector<double> sums = losses;
  job.world().all_reduce(paceline::buffer_of(sums)).wait();
  Judgement found{.ensemble = accuracy(together), .member = sums.back() / job.world_size()};
  const std::size_t count = losses.size() / 2;
  for (std::size_t k = 0; k < count; ++k)
    found.worst_excess =
        std::max(found.worst_excess, losses[count + k] - sums[k] / job.world_size());
  return found;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const auto seed = static_cast<std::uint64_t>(std::atoll(argv[1]));
  const std::int64_t steps = std::atoll(argv[2]), period = std::atoll(argv[3]);
  at::set_num_threads(1);
  paceline::Job job = paceline::init();
  const data::LabelledImages training = data::load_fashion_mnist(data::Split::train),
                             test = data::load_fashion_mnist(data::Split::test);
  data::GlobalBatches batches({.samples = training.size(),
                               .batch_size = kBatch,
                               .seed = seed,
                               .rank = job.rank(),
                               .world_size = job.world_size()});
  nn::Sequential model = make_mlp(seed);
  paceline::DataParallel parallel(model, job, {.synchrony = "none"});
  torch::optim::SGD optimizer(model->parameters(),
                              torch::optim::SGDOptions(kRate).momentum(kMomentum));
  Ensemble ensemble(*model, job.world());

  std::int64_t taught_from = 0, row = 0;  // the steps from then on are taught; rows of relabel()
  for (std::int64_t step = 0; step < steps; ++step) {
    if (step % period == 0) taught_from = step + period - period / 4;
    if (step == taught_from) {
      const std::int64_t end = std::min(steps, step + period / 4);
      const at::Tensor coming = samples_of(batches, step, end);
      ensemble.relabel(data::take(training, coming, at::kFloat).images,
                       [&](const at::Tensor& x) { return model->forward(x); });
      row = 0;
    }
    const data::Batch batch = data::take(training, batches.at(step).indices, at::kFloat);
    const at::Tensor logits = model->forward(batch.images);
    const std::int64_t count = batch.labels.size(0);
    static_cast<torch::optim::SGDOptions&>(optimizer.param_groups()[0].options())
        .lr(kRate * static_cast<double>(steps - step) / static_cast<double>(steps));
    optimizer.zero_grad();
    (step >= taught_from ? ensemble.loss(logits, batch.labels, at::arange(row, row + count))
                         : nn::functional::cross_entropy(logits, batch.labels))
        .backward();
    row += count;
    parallel.step(optimizer);
  }

  const Judgement found = judge(job, model, ensemble, test);
  if (job.rank() == 0)
    std::printf(
        "{\"ensemble_accuracy\": %.4f, \"member_accuracy\": %.4f, \"worst_excess\": %.3g}\n",
        found.ensemble, found.member, found.worst_excess);
  return 0;
}
