// Masters: parameters of float32 that an optimizer steps, of a model that computes in 16 bits.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <torch/nn/module.h>

#include <functional>
#include <vector>

#include "paceline/torch/replica/replica.h"

namespace paceline::precision {

// Tensors of a model that have 16 bits for a time. Its end makes them float32 again: what is
// trained takes its master's values and gradient, and shares memory with it.
class HalvedTensors {
 public:
  HalvedTensors() = default;
  HalvedTensors(HalvedTensors&&) noexcept = default;
  HalvedTensors& operator=(HalvedTensors&&) = delete;
  ~HalvedTensors();

  // `whole`: its values in float32, while the training has not begun for what has no master.
  void add(const at::Tensor& tensor, const at::Tensor& whole, bool is_master);
  // From here on tensors without a master end with the values that they have then.
  void begin();

 private:
  struct Halved {
    at::Tensor tensor, whole;
    at::ScalarType type;  // of 16 bits
    bool is_master;
  };
  std::vector<Halved> tensors_;
};

// Turns the parameters and buffers of the model's layers into `type`, except those of norms:
// BatchNorm, SyncBatchNorm, LayerNorm, and layers for which `is_norm` is true, as long as the
// result lives. A parameter stays the same tensor. What is trained in `parts`, which are the
// model's, becomes its master: a copy of what it was (Parameter::computed). THROWS Error (misuse),
// by name, before anything has changed: a trained parameter that is not float32, or has sparse
// gradients.
[[nodiscard]] HalvedTensors halve(torch::nn::Module& model, replica::ModelParts& parts,
                                  at::ScalarType type,
                                  const std::function<bool(const torch::nn::Module&)>& is_norm);

// THROWS Error (misuse), by name: a trained parameter that is not float32.
void require_float32(const replica::ModelParts& parts);

}  // namespace paceline::precision
