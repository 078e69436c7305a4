// The programs of docs/guide/coming_from_*.md; a house rule compares them. Prints a line:
// {"loss": of the last step, "parameters_sha256": ...}.
//
//   paceline run -n 2 -- coming_from ddp | horovod
//   coming_from tensorflow
#include <torch/torch.h>

#include <cstdio>
#include <string>

#include "paceline/torch/bridge/digest.h"
#include "paceline/torch/data/data.h"
#include "paceline/torch/parallel/parallel.h"

namespace {

namespace data = paceline::data;
namespace F = torch::nn::functional;

constexpr std::int64_t kBatch = 64;  // of all ranks together
constexpr std::int64_t kSteps = 20;

struct Net : torch::nn::Module {
  at::Tensor forward(const at::Tensor& images) { return last(at::relu(first(images.flatten(1)))); }
  torch::nn::Linear first = register_module("first", torch::nn::Linear(28 * 28, 64));
  torch::nn::Linear last = register_module("last", torch::nn::Linear(64, 10));
};

// Part `part` of `parts` of a global batch.
data::Batch batch_of(const data::LabelledImages& images, std::int64_t step, int part, int parts) {
  const std::int64_t rows = kBatch / parts, begin = step * kBatch + part * rows;
  return data::take(images, at::arange(begin, begin + rows), at::kFloat);
}

int tell(double loss, const std::vector<at::Tensor>& parameters) {
  std::printf("{\"loss\": %.17g, \"parameters_sha256\": \"%s\"}\n", loss,
              paceline::sha256_of(parameters).c_str());
  return 0;
}

int from_ddp(const data::LabelledImages& images) {
  paceline::Job job = paceline::init();
  auto model = std::make_shared<Net>();
  paceline::DataParallel parallel(model, job);
  torch::optim::SGD optimizer(model->parameters(), 0.05);

  at::Tensor loss;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const data::Batch batch = batch_of(images, step, job.rank(), job.world_size());
    optimizer.zero_grad();
    loss = F::cross_entropy(model->forward(batch.images), batch.labels);
    loss.backward();
    parallel.step(optimizer);
  }
  return tell(loss.item<double>(), model->parameters());
}

int from_horovod(const data::LabelledImages& images) {
  paceline::Job job = paceline::init();
  auto model = std::make_shared<Net>();
  torch::optim::SGD sgd(model->parameters(), 0.05);
  paceline::DistributedOptimizer optimizer(sgd, job);

  at::Tensor loss;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const data::Batch batch = batch_of(images, step, job.rank(), job.world_size());
    optimizer.zero_grad();
    loss = F::cross_entropy(model->forward(batch.images), batch.labels);
    loss.backward();
    optimizer.step();
  }
  return tell(loss.item<double>(), model->parameters());
}

int from_tensorflow(const data::LabelledImages& images) {
  paceline::Mirrored<Net> mirrored(
      {torch::kCPU, torch::kCPU}, [] { return std::make_shared<Net>(); },
      [](auto parameters) { return std::make_unique<torch::optim::SGD>(parameters, 0.05); });

  double loss = 0;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const data::Batch batch = batch_of(images, step, 0, 1);  // the whole of it
    loss = mirrored.step({batch.images, batch.labels}, [](Net& net, const auto& part) {
      return F::cross_entropy(net.forward(part[0]), part[1]);
    });
  }
  return tell(loss, mirrored.replica().parameters());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string from = argc == 2 ? argv[1] : "";
  torch::set_num_threads(1);
  torch::manual_seed(1);
  const data::LabelledImages images = data::load_fashion_mnist(data::Split::train);
  if (from == "ddp") return from_ddp(images);
  if (from == "horovod") return from_horovod(images);
  if (from == "tensorflow") return from_tensorflow(images);
  std::fprintf(stderr, "usage: coming_from ddp | horovod | tensorflow\n");
  return 2;
}
