// A tensor that stands in a parameter's grad while the gradient itself lies elsewhere: with a
// master, or in pieces on the ranks (gradient_note.h). It can do what clipping needs, norm() and
// multiplication in place, for all of the gradient; anything else is refused by name. So
// torch::nn::utils::clip_grad_norm_ over a model's parameters is right whoever has the gradients.
#pragma once

#include <ATen/core/Tensor.h>

namespace paceline::parallel {

// Stands for the gradient of a tensor on which a note is; undefined where there is none. Where
// ranks have pieces of it, norm() is collective.
at::Tensor gradient_elsewhere(const at::Tensor& parameter);
bool is_elsewhere(const at::Tensor& gradient);
// The parameter has no grad any more, if it was such a tensor.
void drop_if_elsewhere(const at::Tensor& parameter);

}  // namespace paceline::parallel
