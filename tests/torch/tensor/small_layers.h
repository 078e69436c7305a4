// Split layers on ranks that are threads, for the tests of this room.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <latch>
#include <mutex>
#include <vector>

#include "paceline/core/mesh/mesh.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/tensor/tensor.h"
#include "tests/support/local_world.h"
#include "tests/support/misuse.h"

namespace paceline::tensor_test {

// Calls `make` with torch's generator at this seed. Ranks are threads here, and torch has one
// generator for all.
template <typename Make>
auto drawn(std::uint64_t seed, const Make& make) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  torch::manual_seed(seed);
  return make();
}

inline at::Tensor numbers(std::uint64_t seed, at::IntArrayRef shape) {
  auto generator = at::detail::createCPUGenerator(seed);
  return at::randn(shape, generator, at::TensorOptions().dtype(at::kDouble));
}

inline double distance(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).abs().max() / b.abs().max()).item<double>();
}

using test::misuse_of;

// Both ranks call, and forget all tensors of the call, rank 1 only when rank 0 has done so and has
// other tensors of that shape. No message of the call may write into these.
inline void expect_to_write_nowhere_else(at::IntArrayRef shape,
                                         const std::function<void(Communicator&)>& call) {
  std::latch is_forgotten(1);
  test::run_ranks(2, [&](Job& job) {
    if (job.rank() == 1) is_forgotten.wait();
    call(job.world());
    std::vector<at::Tensor> others;
    for (int i = 0; i < 16; ++i) others.push_back(at::zeros(shape, at::kDouble));
    if (job.rank() == 0) is_forgotten.count_down();
    job.world().barrier().wait();
    for (const at::Tensor& other : others) EXPECT_EQ(other.count_nonzero().item<int>(), 0);
  });
}

// An MLP of two layers, of Paceline's kind or torch's.
template <typename Layer>
struct Mlp : torch::nn::Module {
  explicit Mlp(std::int64_t wide = 12) {
    up = register_module("up", Layer(6, wide));
    down = register_module("down", Layer(wide, 4));
  }
  at::Tensor forward(const at::Tensor& x) { return down(at::tanh(up(x))); }
  Layer up{nullptr}, down{nullptr};
};

}  // namespace paceline::tensor_test
