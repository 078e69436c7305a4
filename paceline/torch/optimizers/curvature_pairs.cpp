#include "paceline/torch/optimizers/curvature_pairs.h"

#include <torch/torch.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/core/quasi_newton/quasi_newton.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/optimizers/norms.h"

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

bool has_curvature(const at::Tensor& s, const at::Tensor& y) {
  return quasi_newton::has_curvature(inner_product(s, y), inner_product(s, s), inner_product(y, y));
}

CurvaturePairs::CurvaturePairs(const FlatParameters& parameters, std::int64_t most) {
  if (most < 1) throw_misuse(c10::str("history_size is ", most, ": at least one pair is kept"));
  s_ = parameters.zeros(most);
  y_ = parameters.zeros(most);
  products_.resize(static_cast<std::size_t>(most));
}

std::int64_t CurvaturePairs::size() const {
  return std::min(added_, s_.size(0));
}

std::int64_t CurvaturePairs::row(std::int64_t age) const {
  return (added_ - 1 - age) % s_.size(0);
}

bool CurvaturePairs::add(const at::Tensor& s, const at::Tensor& y) {
  if (!has_curvature(s, y)) return false;
  ++added_;
  s_[row(0)].copy_(s);
  y_[row(0)].copy_(y);
  products_[static_cast<std::size_t>(row(0))] = inner_product(s, y);
  return true;
}

at::Tensor CurvaturePairs::times(const at::Tensor& vector, Beginning beginning) const {
  at::Tensor product = vector.clone();
  if (size() == 0) return product;
  std::vector<double> products;
  for (std::int64_t age = 0; age < size(); ++age)
    products.push_back(products_[static_cast<std::size_t>(row(age))]);
  std::optional<double> scale;
  const at::Tensor newest = y_[row(0)];
  if (beginning == Beginning::scaled) scale = products[0] / inner_product(newest, newest);
  const auto vector_of = [this](const quasi_newton::TwoLoop::Vector& one) {
    const bool is_move = one.of == quasi_newton::TwoLoop::Vector::Of::move;
    return (is_move ? s_ : y_)[row(static_cast<std::int64_t>(one.age))];
  };
  quasi_newton::TwoLoop loops(std::move(products), scale);
  for (auto step = loops.next();;
       step = loops.next(inner_product(vector_of(*step.product), product))) {
    if (step.added) product.add_(vector_of(*step.added), step.factor);
    if (step.scale) product.mul_(*step.scale);
    if (!step.product) return product;
  }
}

at::Tensor product_of(const at::Tensor& h, const at::Tensor& v) {
  at::Tensor product = at::empty_like(v);
  for (std::int64_t i = 0; i < h.size(0); ++i) product[i].fill_(inner_product(h[i], v));
  return product;
}

void update_by_bfgs(at::Tensor& h, const at::Tensor& s, const at::Tensor& y) {
  const at::Tensor hy = product_of(h, y);
  const double r = 1 / inner_product(s, y);
  const at::Tensor mixed = at::outer(s, hy);
  h.add_(at::outer(s, s), (1 + r * inner_product(y, hy)) * r).sub_(mixed + mixed.t(), r);
}

void update_by_dfp(at::Tensor& h, const at::Tensor& s, const at::Tensor& y) {
  const at::Tensor hy = product_of(h, y);
  h.add_(at::outer(s, s), 1 / inner_product(s, y))
      .sub_(at::outer(hy, hy), 1 / inner_product(y, hy));
}

}  // namespace paceline::optimizers
