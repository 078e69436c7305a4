// The one pass over a gradient on its way out: to = factor * from.
#pragma once

#include <ATen/core/Tensor.h>

namespace paceline::parallel {

// Both of one shape and element type, without autograd. The product is rounded once, in the
// tensors' own type. COST: large tensors of equal layout are written past the caches (non-temporal
// stores): the slot is cold anyway, and not fetching its lines before they are overwritten halves
// the time (measured: bench/parallel/gradient_pass.cpp).
void scaled_copy(const at::Tensor& from, double factor, at::Tensor& to);

}  // namespace paceline::parallel
