// A model made of what running steps showed.
#pragma once

#include <span>
#include <vector>

#include "paceline/core/schedule/model.h"

namespace paceline::schedule {

// Seconds since the step before ended, on one rank.
struct ObservedStep {
  std::vector<int> arrived;        // gradients, in the order in which they were made
  std::vector<double> arrived_at;  // of each of these, after the update; never falling
  double update = 0;               // that the update of all parameters took; 0: not known
  double seconds = 0;              // until it ended
};

// `tensors`: by gradient, without times. `order`: all of them in send order. The times are those of
// the quickest of `steps` in which most gradients came: a gradient's backward time is that since
// the one before it; what went before the first is the forward pass, of which each tensor has a
// share as of the backward pass; of the update each has a share by its bytes.
Model observed_model(const std::vector<Tensor>& tensors, std::span<const int> order,
                     std::span<const ObservedStep> steps);

}  // namespace paceline::schedule
