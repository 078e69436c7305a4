#include "paceline/torch/replica/grads/mixed_precision.h"

#include "paceline/core/base/base.h"

namespace paceline::replica {

void MixedPrecision::require_scaled() const {
  if (!is_unscaled()) return;
  throw_misuse(
      "the gradients of this step were unscaled already, by synchronize(): end each step with "
      "step(optimizer) before the next backward() or synchronize()");
}

}  // namespace paceline::replica
