// Small networks for trainings on devices, and where they lie: each takes rows of 12 numbers, and
// gives scores of 5 classes.
#pragma once

#include <torch/torch.h>

#include "examples/05_tiny_gpt/model.h"

namespace paceline::test {

namespace nn = torch::nn;

inline nn::Sequential small_mlp() {
  return nn::Sequential(nn::Linear(12, 32), nn::ReLU(), nn::Linear(32, 24), nn::ReLU(),
                        nn::Linear(24, 5));
}

inline nn::Sequential small_cnn() {
  return nn::Sequential(nn::Unflatten(nn::UnflattenOptions(1, {1, 3, 4})),
                        nn::Conv2d(nn::Conv2dOptions(1, 6, 3).padding(1)), nn::BatchNorm2d(6),
                        nn::ReLU(), nn::Flatten(), nn::Linear(72, 5));
}

// The numbers as words of a vocabulary of 5.
inline at::Tensor words_in(const at::Tensor& rows) {
  return rows.mul(2).floor().remainder(5).to(at::kLong);
}

// In float64: libtorch's attention on the CPU rounds otherwise than its formula, which devices
// without a kernel of their own take.
inline nn::Sequential small_gpt() {
  const tiny_gpt::Options options{.vocabulary = 5,
                                  .length = 12,
                                  .features = 16,
                                  .heads = 2,
                                  .kv_heads = 2,
                                  .layers = 2,
                                  .dropout = 0.1};
  nn::Sequential model(nn::Functional(words_in), tiny_gpt::Model(options),
                       nn::Functional([](const at::Tensor& logits) {
                         return logits.unflatten(0, {-1, 12}).mean(1);
                       }));
  model->to(at::kDouble);
  return model;
}

// The gradient of its first layer is sparse.
inline nn::Sequential small_embedding() {
  return nn::Sequential(nn::Functional(words_in),
                        nn::Embedding(nn::EmbeddingOptions(5, 8).sparse(true)), nn::Flatten(),
                        nn::Linear(96, 5));
}

// The same initial parameters wherever they are drawn.
inline void draw_parameters(nn::Sequential& model) {
  at::Generator draw = at::detail::createCPUGenerator(7);
  for (const at::Tensor& one : model->parameters())
    one.detach().copy_(at::randn(one.sizes(), draw).mul_(0.3));
}

// The place of a rank's model.
inline at::Device place_of(bool on_device, int number) {
  return on_device ? at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(number))
                   : at::Device(at::kCPU);
}

}  // namespace paceline::test
