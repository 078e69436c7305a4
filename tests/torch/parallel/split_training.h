// A small model whose layers ranks may share, and its loss, for the tests of this room.
#pragma once

#include "paceline/core/mesh/mesh.h"
#include "paceline/torch/tensor/tensor.h"
#include "tests/torch/parallel/small_training.h"

namespace paceline {

// In float32. A mesh with tp > 1 splits its first two layers; the last one is whole everywhere.
inline nn::Sequential layers_on(DeviceMesh& mesh) {
  nn::Sequential net(nn::Linear(6, 8), nn::Tanh(), nn::Linear(8, 8), nn::Tanh(), nn::Linear(8, 3));
  at::Generator generator = at::detail::createCPUGenerator(11);
  {
    const at::NoGradGuard no_grad;
    for (auto& each : net->parameters())
      each.copy_(at::randn(each.sizes(), generator, at::TensorOptions().dtype(at::kFloat)) * 0.4);
  }
  parallelize(*net, mesh, {{"0", ParallelStyle::column}, {"2", ParallelStyle::row}});
  return net;
}

inline at::Tensor loss_of(const DataParallel& parallel, nn::Sequential& net, const Samples& some) {
  const auto scope = parallel.autocast();
  const at::Tensor output = net->forward(some.x.to(parallel.input_type()));
  return at::mse_loss(output.to(at::kFloat), some.y.to(at::kFloat));
}

}  // namespace paceline
