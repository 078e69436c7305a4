// The local problem of consensus ADMM: a replica's own loss and penalty/2 |x - z + u|^2.
#pragma once

#include <ATen/core/Tensor.h>

#include "paceline/torch/strategy/local/flat_model.h"

namespace paceline::strategy {

// Adds the penalty's gradient to that of each trained parameter. `consensus` is z and `dual` u, both
// vectors of the model. THROWS Error (misuse): a gradient is sparse.
void add_consensus_penalty(const FlatModel& model, const at::Tensor& consensus,
                           const at::Tensor& dual, double penalty);

}  // namespace paceline::strategy
