// A Reduction (device.h) in the form that kernels take (reduce_elements.h).
#pragma once

#include <algorithm>

#include "paceline/core/device/device.h"
#include "paceline/core/device/reduce_elements.h"

namespace paceline::device {

inline Step step_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::min: return Step::min;
    case ReduceOp::max: return Step::max;
    case ReduceOp::product: return Step::product;
    case ReduceOp::band: return Step::band;
    case ReduceOp::bor: return Step::bor;
    case ReduceOp::bxor: return Step::bxor;
    default: return Step::sum;
  }
}

// REQUIRES: as many outputs as inputs, at most Device::kMostOperands.
inline Operands operands_of(const Reduction& reduction) {
  Operands all{.count = reduction.count,
               .factor = reduction.factor,
               .ranks = static_cast<std::int32_t>(reduction.inputs.size())};
  std::ranges::copy(reduction.inputs, all.inputs);
  std::ranges::copy(reduction.outputs, all.outputs);
  return all;
}

}  // namespace paceline::device
