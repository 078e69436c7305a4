// The inverse Hessian as a matrix, and the two updates that make it agree with a move s and the
// change y of the gradient: afterwards H y = s (the secant equation), H stays symmetric, and
// definite where s.y > 0.
#pragma once

#include <ATen/core/Tensor.h>

namespace paceline::optimizers {

// H v, with the same bits on all ranks. H: d x d.
at::Tensor product_of(const at::Tensor& h, const at::Tensor& v);

// H += (1 + r y.Hy) r s s^T - r (s (Hy)^T + (Hy) s^T), r = 1 / s.y. Broyden, Fletcher, Goldfarb,
// Shanno, 1970.
void update_by_bfgs(at::Tensor& h, const at::Tensor& s, const at::Tensor& y);

// H += s s^T / s.y - (Hy) (Hy)^T / y.Hy. Davidon, 1959; Fletcher, Powell, 1963.
void update_by_dfp(at::Tensor& h, const at::Tensor& s, const at::Tensor& y);

}  // namespace paceline::optimizers
