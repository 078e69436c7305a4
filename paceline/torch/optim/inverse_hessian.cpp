#include "paceline/torch/optim/inverse_hessian.h"

#include <torch/torch.h>

#include "paceline/torch/optim/norms.h"

namespace paceline::optimizers {

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
