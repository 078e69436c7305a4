// A small model in float32 and its trainings, for the tests of this room.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "paceline/core/base/base.h"
#include "paceline/core/mesh/mesh.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/norm/norm.h"
#include "paceline/torch/parallel/parallel.h"
#include "paceline/torch/tensor/tensor.h"
#include "tests/support/local_world.h"

namespace paceline {

namespace nn = torch::nn;

inline std::mutex seeding;  // ranks are threads here, and torch has one generator

template <typename Make>
auto seeded(const Make& make) {
  const std::lock_guard lock(seeding);
  torch::manual_seed(5);
  return make();
}

// Layers of 16 bits, and three norms, which stay float32.
inline nn::Sequential small_model() {
  return seeded([] {
    return nn::Sequential(nn::Linear(8, 16), nn::Tanh(), nn::Linear(16, 8), nn::BatchNorm1d(8),
                          SyncBatchNorm(nn::BatchNormOptions(8)),
                          paceline::LayerNorm(std::vector<std::int64_t>{8}), nn::Linear(8, 4));
  });
}

inline at::Tensor normal(int seed, std::int64_t rows, std::int64_t columns) {
  auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(seed));
  return at::randn({rows, columns}, generator, at::kFloat);
}

inline at::Tensor loss_of(const DataParallel& parallel, nn::Sequential& model, int seed) {
  const auto scope = parallel.autocast();
  const at::Tensor output = model->forward(normal(seed, 12, 8).to(parallel.input_type()));
  return at::mse_loss(output.to(at::kFloat), normal(seed + 1000, 12, 4));
}

inline torch::optim::Adam adam_of(const DataParallel& parallel) {
  return torch::optim::Adam(parallel.parameters(), torch::optim::AdamOptions(0.01));
}

inline std::int64_t steps_of(torch::optim::Adam& adam) {
  const auto& parameter = adam.param_groups()[0].params()[0];
  const auto found = adam.state().find(parameter.unsafeGetTensorImpl());
  if (found == adam.state().end()) return 0;
  return static_cast<torch::optim::AdamParamState&>(*found->second).step();
}

inline double scale_of(DataParallel& parallel) {
  return parallel.replicas().state().values.at("numbers").at("scale").get<double>();
}

inline std::string digest_of(DataParallel& parallel, const nn::Sequential& model) {
  const auto whole = parallel.gathered();
  return sha256_of(model->parameters()) + sha256_of(parallel.parameters());
}

}  // namespace paceline
