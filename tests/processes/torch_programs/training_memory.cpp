// Trains a large mlp for a few steps and prints its peak memory, as one line of JSON.
//
//   training_memory plain|parallel     plain: libtorch alone, in one process
//
// The kernel counts for a process (VmHWM) all pages that it touched, so also those of its peers'
// gradients that it read in their shared memory: more than a rank's own part.
#include <torch/torch.h>

#include <cstdio>
#include <fstream>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "paceline/core/job/job.h"
#include "paceline/torch/parallel/parallel.h"

namespace {

std::int64_t peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string key, rest; status >> key; std::getline(status, rest)) {
    std::int64_t kib = 0;
    if (key == "VmHWM:" && status >> kib) return kib * 1024;
  }
  return -1;
}

}  // namespace

int main(int argc, char** argv) {
  const bool plain = argc == 2 && std::string(argv[1]) == "plain";
  at::set_num_threads(1);
  paceline::Job job = paceline::init();
  torch::nn::Sequential model(torch::nn::Linear(1024, 3072), torch::nn::ReLU(),
                              torch::nn::Linear(3072, 3072), torch::nn::ReLU(),
                              torch::nn::Linear(3072, 3072), torch::nn::ReLU(),
                              torch::nn::Linear(3072, 10));
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.01));
  std::int64_t gradient_bytes = 0;
  for (const auto& parameter : model->parameters())
    gradient_bytes += static_cast<std::int64_t>(parameter.nbytes());
  std::optional<paceline::DataParallel> parallel;
  if (!plain) parallel.emplace(model, job);
  for (int step = 0; step < 5; ++step) {
    optimizer.zero_grad();
    model->forward(at::rand({16, 1024})).square().mean().backward();
    if (plain) optimizer.step();
    else parallel->step(optimizer);
  }
  std::printf("%s\n",
              nlohmann::json{{"peak_bytes", peak_bytes()}, {"gradient_bytes", gradient_bytes}}
                  .dump()
                  .c_str());
  return 0;
}
