// Measures saves of 64 tensors of 4 MiB each (256 MiB): how long the training is blocked, how long
// it takes until the checkpoint is durable, what a copy of the same bytes takes, and what a step
// costs in which no save is due. Prints one line of JSON; bench/against/checkpoint puts it beside
// others.
//
//   bench_checkpointing_save DIRECTORY        the directory is made, and must be on the disk to
//   measure
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

#include "paceline/core/job/job.h"
#include "paceline/torch/checkpointing/checkpointing.h"

namespace {

constexpr int kTensors = 64, kWarmUps = 2, kIdleSteps = 2000;
constexpr std::int64_t kElements = 1 << 20;

template <typename Call>
double seconds(const Call& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Tensors : torch::nn::Module {
  Tensors() {
    for (int i = 0; i < kTensors; ++i)
      register_parameter("tensor" + std::to_string(i), at::randn({kElements}));
  }
};

double seconds_of_a_copy(Tensors& model) {
  const auto parameters = model.parameters();
  std::vector<char> to(static_cast<std::size_t>(kTensors * kElements) * sizeof(float), 1);
  return seconds([&] {
    char* place = to.data();
    for (const at::Tensor& parameter : parameters) {
      std::memcpy(place, parameter.const_data_ptr(), parameter.nbytes());
      place += parameter.nbytes();
    }
  });
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: bench_checkpointing_save DIRECTORY\n");
    return 2;
  }
  paceline::Job job = paceline::init();
  torch::manual_seed(1);
  Tensors model;
  paceline::Checkpoints checkpoints(job, argv[1], {.every = 1'000'000});
  checkpoints.add("model", model);
  std::int64_t step = checkpoints.resume();
  for (int i = 0; i < kWarmUps; ++i) checkpoints.save(++step);

  std::vector<double> idle;
  for (int i = 0; i < kIdleSteps; ++i)
    idle.push_back(seconds([&] { checkpoints.save_if_due(++step); }));
  const double copy = seconds_of_a_copy(model);
  step = 1'000'000;
  double blocked = 0;
  const double durable = seconds([&] {
    blocked = seconds([&] { checkpoints.save_if_due(step); });
    checkpoints.finish();
  });
  if (job.rank() == 0) {
    std::printf(
        "{\"ranks\": %d, \"copy\": %.6f, \"blocked\": %.6f, \"durable\": %.6f, "
        "\"idle\": %.9f}\n",
        job.world_size(), copy, blocked, durable, median(idle));
  }
  return 0;
}
