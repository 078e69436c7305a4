// Makes a model from observations of running steps.
#pragma once

#include <span>
#include <vector>

#include "paceline/core/schedule/order/model.h"

namespace paceline::schedule {

// One step on one rank; times are seconds since the step before ended.
struct ObservedStep {
  std::vector<int> arrived;        // gradients, in the order in which they were made
  std::vector<double> arrived_at;  // time of each of these, after the update; ascending
  double update = 0;               // duration of the update of all parameters; 0: unknown
  double seconds = 0;              // duration of the step
};

// `tensors` are by gradient, without times; `order` lists all of them in send order. The times are
// those of the quickest of the `steps` in which most gradients arrived. A gradient's backward time
// is the time since the gradient before it; the time before the first is the forward pass, split
// among the tensors as the backward pass is; the update is split by bytes.
Model observed_model(const std::vector<Tensor>& tensors, std::span<const int> order,
                     std::span<const ObservedStep> steps);

}  // namespace paceline::schedule
