// Recomputation: a function's activations are not kept for the backward pass, but computed again in
// it. What it saves and costs: docs/pipelines/recomputation.md.
// Source: Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016 (arXiv 1604.06174).
//
//   at::Tensor y = paceline::recompute([&](const at::Tensor& x) { return block(x); }, x);
//
// Outputs and gradients have the bits that they have without it, for these reasons:
//   random numbers  the second pass draws what the first one drew, from libtorch's default CPU
//                   generator, which then stands again where it stood; paceline::Dropout knows a
//                   pass by its input
//   autocast        the second pass computes in the state of the first one
//   state           what the function writes to beside its inputs, such as running statistics, it
//                   writes to once: the second pass's values are taken back
//   parameters      each gets its gradient at its own node, so that the hooks of DataParallel see
//                   it
// A sum of three or more gradients may round in another order where a parameter, or an input that
// the function uses twice, is also used elsewhere, because the function's share is added as a
// whole; within Autocast a parameter is cast for each call, not once for each step.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace paceline {

using Tensors = std::vector<at::Tensor>;

// Runs `function` without recording it, and once more in the backward pass, which then goes through
// what was recorded. Between the two only the inputs are kept. `function` is copied, and what it
// refers to lives until the backward pass has run. Where autograd does not record, it just runs.
//
// REQUIRES: `function` computes the same both times, from its inputs, parameters, random numbers,
// and constants; every tensor with a history comes in as an input. Inputs may be integers or
// require no gradient. All floating outputs require a gradient, as nobody knows yet which of the
// function's parameters do.
//
// THROWS Error (misuse), now: the function writes to an input in place, or reads a tensor with a
// history that is no input. In the backward pass: an input, parameter or constant that was written
// to or given other memory since then; other outputs than the first time; create_graph; a pass for
// chosen inputs only (torch::autograd::grad); a second pass without retain_graph.
at::Tensor recompute(const std::function<at::Tensor(const at::Tensor&)>& function,
                     const at::Tensor& input);
Tensors recompute(const std::function<Tensors(const Tensors&)>& function, const Tensors& inputs);

}  // namespace paceline
