// The small GPT in fp64 and its batches, for the tests of this room.
#pragma once

#include <gtest/gtest.h>

#include <mutex>

#include "examples/05_tiny_gpt/model.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/parallel/parallel.h"
#include "tests/support/local_world.h"

namespace paceline::tensor_test {

constexpr tiny_gpt::Options kGpt{
    .vocabulary = 101, .length = 32, .features = 64, .heads = 4, .kv_heads = 2, .layers = 2};
constexpr double kDropout = 0.2;
constexpr std::int64_t kBatch = 4;

inline tiny_gpt::Model model_of_seed(double dropout = 0) {
  static std::mutex mutex;  // ranks are threads here, and torch has one generator
  const std::lock_guard lock(mutex);
  torch::manual_seed(7);
  tiny_gpt::Options options = kGpt;
  options.dropout = dropout;
  tiny_gpt::Model model(options);
  model->to(at::kDouble);
  return model;
}

inline const torch::optim::AdamOptions kAdam(3e-3);

inline torch::optim::Adam adam(const tiny_gpt::Model& model) {
  return torch::optim::Adam(model->parameters(), kAdam);
}

// Whole sequences of one more word than the model reads.
inline at::Tensor words_of(int step) {
  auto generator = at::detail::createCPUGenerator(100 + static_cast<std::uint64_t>(step));
  return at::randint(kGpt.vocabulary, {kBatch, kGpt.length + 1}, generator, at::kLong);
}

inline at::Tensor loss_of(tiny_gpt::Model& model, const at::Tensor& words) {
  return model->loss(words.narrow(1, 0, kGpt.length), words.narrow(1, 1, kGpt.length));
}

}  // namespace paceline::tensor_test
