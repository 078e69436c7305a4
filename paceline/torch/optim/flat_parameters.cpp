#include "paceline/torch/optim/flat_parameters.h"

#include <torch/torch.h>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"

namespace paceline::optimizers {

FlatParameters::FlatParameters(const std::vector<torch::optim::OptimizerParamGroup>& groups) {
  for (const auto& group : groups)
    tensors_.insert(tensors_.end(), group.params().begin(), group.params().end());
  if (tensors_.empty()) throw_misuse("an optimizer has no parameters: hand it those of a model");
  for (const at::Tensor& tensor : tensors_) {
    size_ += tensor.numel();
    if (tensor.is_cpu() && tensor.is_floating_point() &&
        tensor.scalar_type() == tensors_[0].scalar_type())
      continue;
    throw_misuse(
        c10::str("this optimizer sees all parameters as one vector, so they have to be of one "
                 "floating type in host memory: the first is ",
                 describe(tensors_[0]), " and another one ", describe(tensor)));
  }
}

at::Tensor FlatParameters::zeros(std::int64_t rows) const {
  return at::zeros({rows, size_}, tensors_[0].options().requires_grad(false));
}

at::Tensor FlatParameters::values() const {
  std::vector<at::Tensor> flat;
  for (const at::Tensor& tensor : tensors_) flat.push_back(tensor.detach().flatten());
  return at::cat(flat);
}

at::Tensor FlatParameters::gradient() const {
  std::vector<at::Tensor> flat;
  for (const at::Tensor& tensor : tensors_) {
    const at::Tensor& grad = tensor.grad();
    flat.push_back(grad.defined() ? grad.to_dense().flatten() : at::zeros_like(tensor).flatten());
  }
  return at::cat(flat).detach();
}

std::vector<at::Tensor> FlatParameters::parts(const at::Tensor& vector) const {
  std::vector<at::Tensor> parts;
  std::int64_t begin = 0;
  for (const at::Tensor& tensor : tensors_) {
    parts.push_back(vector.narrow(0, begin, tensor.numel()).view(tensor.sizes()));
    begin += tensor.numel();
  }
  return parts;
}

void FlatParameters::assign(const at::Tensor& values) const {
  const at::NoGradGuard no_grad;
  const auto all = parts(values);
  for (std::size_t i = 0; i < all.size(); ++i) tensors_[i].copy_(all[i]);
}

}  // namespace paceline::optimizers
