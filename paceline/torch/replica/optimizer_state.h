// The state of a parameter by the table of known optimizers (optim), for this room.
#pragma once

#include <string>

#include "paceline/torch/optim/optim.h"

namespace paceline::parallel {

using optimizers::OptimizerSlot;
using optimizers::OptimizerSlots;
using OptimizerStateKind = optimizers::KnownOptimizer;

inline const OptimizerStateKind* state_kind_of(const torch::optim::Optimizer& optimizer) {
  return optimizers::with_known_state(optimizer);
}
inline std::string known_optimizers() {
  return optimizers::names_with_known_state();
}

}  // namespace paceline::parallel
