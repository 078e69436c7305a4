// All parameters of an optimizer as one vector, in the order of its groups.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <vector>

namespace paceline::optimizers {

class FlatParameters {
 public:
  // THROWS Error (misuse): there are none, or they are not of one floating type in host memory.
  explicit FlatParameters(const std::vector<torch::optim::OptimizerParamGroup>& groups);

  std::int64_t size() const { return size_; }
  at::Tensor zeros(std::int64_t rows) const;  // rows x size, of the parameters' type

  at::Tensor values() const;  // a copy
  void assign(const at::Tensor& values) const;
  // A copy of the grads; zeros where a parameter has none.
  at::Tensor gradient() const;
  // Those of this vector, in the shapes of the parameters.
  std::vector<at::Tensor> parts(const at::Tensor& vector) const;
  const std::vector<at::Tensor>& tensors() const { return tensors_; }

 private:
  std::vector<at::Tensor> tensors_;
  std::int64_t size_ = 0;
};

}  // namespace paceline::optimizers
