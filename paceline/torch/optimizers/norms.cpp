#include "paceline/torch/optimizers/norms.h"

#include <torch/torch.h>

#include <cmath>

#include "paceline/core/base/base.h"
#include "paceline/core/quasi_newton/quasi_newton.h"
#include "paceline/torch/bridge/bridge.h"

namespace paceline::optimizers {
namespace {

template <typename T>
double inner_product_of(const at::Tensor& a, const at::Tensor& b) {
  if (a.numel() == 0) return 0;
  return quasi_newton::inner_product(a.const_data_ptr<T>(), b.const_data_ptr<T>(),
                                     static_cast<std::size_t>(a.numel()));
}

}  // namespace

double inner_product(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor left = a.detach().contiguous(), right = b.detach().contiguous();
  if (left.is_cpu() && right.scalar_type() == left.scalar_type()) {
    switch (left.scalar_type()) {
      case at::kDouble: return inner_product_of<double>(left, right);
      case at::kFloat: return inner_product_of<float>(left, right);
      case at::kBFloat16: return inner_product_of<at::BFloat16>(left, right);
      case at::kHalf: return inner_product_of<at::Half>(left, right);
      default: break;
    }
  }
  throw_misuse("an optimizer takes parameters of a floating type in host memory, and this one is " +
               describe(a) + " beside " + describe(b));
}

std::vector<double> whole_norms(const std::vector<at::Tensor>& tensors, const SumOverShards& sum) {
  std::vector<double> norms;
  for (const at::Tensor& tensor : tensors) norms.push_back(inner_product(tensor, tensor));
  if (sum) sum(norms);
  for (double& norm : norms) norm = std::sqrt(norm);
  return norms;
}

}  // namespace paceline::optimizers
