// Products and norms of tensors in host memory, in f64 and with the same bits on all ranks that
// hold the same values.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <span>
#include <vector>

namespace paceline::optimizers {

// Adds each value up over the ranks that hold shards of the same tensors, with the same bits on all
// of them; one message. Empty: tensors are whole.
using SumOverShards = std::function<void(std::span<double> values)>;

// REQUIRES: equal counts and types. THROWS Error (misuse): not of a floating type in host memory.
double inner_product(const at::Tensor& a, const at::Tensor& b);

// The 2-norms of tensors of which this rank may hold shards.
std::vector<double> whole_norms(const std::vector<at::Tensor>& tensors, const SumOverShards& sum);

}  // namespace paceline::optimizers
