// Runs with and without recomputation, side by side, for the tests of recompute.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <vector>

#include "paceline/core/base/result.h"
#include "paceline/torch/pipeline/recompute/recompute.h"
#include "tests/support/misuse.h"

namespace paceline::recompute_test {

using Part = std::function<at::Tensor(const at::Tensor&)>;

inline at::Tensor numbers(std::uint64_t seed, at::IntArrayRef shape,
                          at::ScalarType type = at::kFloat) {
  auto generator = at::detail::createCPUGenerator(seed);
  return at::randn(shape, generator, at::TensorOptions().dtype(type));
}

inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.defined() != b.defined()) return false;
  return !a.defined() || (a.scalar_type() == b.scalar_type() && a.equal(b));
}

using test::misuse_of;

// A run's outputs and gradients, and numbers drawn at its end.
struct Trace {
  void add(const at::Tensor& tensor) { tensors.push_back(tensor); }
  void add_gradients(const torch::nn::Module& module) {
    for (const auto& one : module.parameters()) add(one.grad());
  }
  std::vector<at::Tensor> tensors;
};

inline void expect_same_bits(const Trace& a, const Trace& b) {
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (std::size_t i = 0; i < a.tensors.size(); ++i)
    EXPECT_TRUE(same_bits(a.tensors[i], b.tensors[i])) << "tensor " << i;
}

// Runs `run(trace, call)` once with `call` as plain calls and once as recomputed ones.
template <typename Run>
void expect_the_bits_of_plain_calls(const Run& run) {
  Trace traces[2];
  for (const bool recomputes : {false, true}) {
    torch::manual_seed(7);
    run(traces[recomputes ? 1 : 0], [&](const auto& function, const auto& input) {
      return recomputes ? recompute(function, input) : function(input);
    });
    traces[recomputes ? 1 : 0].add(at::rand({3}));
  }
  EXPECT_GT(traces[0].tensors.size(), 1U);
  expect_same_bits(traces[0], traces[1]);
}

// A block whose weight is used twice, with dropout between the uses.
struct Block : torch::nn::Module {
  explicit Block(std::int64_t wide = 24) {
    linear = register_module("linear", torch::nn::Linear(wide, wide));
    drop = register_module("drop", torch::nn::Dropout(0.3));
  }
  at::Tensor forward(const at::Tensor& x) {
    ++passes;
    return linear(at::gelu(drop(linear(x)))) + x;
  }
  Part part() {
    return [this](const at::Tensor& x) { return forward(x); };
  }
  torch::nn::Linear linear{nullptr};
  torch::nn::Dropout drop{nullptr};
  int passes = 0;
};

}  // namespace paceline::recompute_test
