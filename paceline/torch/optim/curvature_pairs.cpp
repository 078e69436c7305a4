#include "paceline/torch/optim/curvature_pairs.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "paceline/core/base/base.h"
#include "paceline/torch/optim/norms.h"

namespace paceline::optimizers {

bool has_curvature(const at::Tensor& s, const at::Tensor& y) {
  return inner_product(s, y) >
         1e-10 * std::sqrt(inner_product(s, s)) * std::sqrt(inner_product(y, y));
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
  std::vector<double> shares;
  for (std::int64_t age = 0; age < size(); ++age) {
    shares.push_back(inner_product(s_[row(age)], product) /
                     products_[static_cast<std::size_t>(row(age))]);
    product.sub_(y_[row(age)], shares.back());
  }
  if (beginning == Beginning::scaled) {
    const at::Tensor newest = y_[row(0)];
    product.mul_(products_[static_cast<std::size_t>(row(0))] / inner_product(newest, newest));
  }
  for (std::int64_t age = size() - 1; age >= 0; --age) {
    const double there =
        inner_product(y_[row(age)], product) / products_[static_cast<std::size_t>(row(age))];
    product.add_(s_[row(age)], shares[static_cast<std::size_t>(age)] - there);
  }
  return product;
}

}  // namespace paceline::optimizers
