// Lower bounds that no schedule can beat (docs/schedules/README.md); they ignore start-ups and
// assume the cheapest path for each byte.
#pragma once

#include "paceline/core/schedule/order/costs.h"
#include "paceline/core/schedule/order/model.h"

namespace paceline::schedule {

struct Bounds {
  double compute = 0, transfer = 0;  // seconds that each alone takes in an iteration
  // For an iteration across the barrier: between two updates of tensor i lie the computation of all
  // tensors from i on and, after its gradient, the transfers of all tensors up to i.
  double crossing = 0;
  double with_barrier = 0;  // of an iteration that ends when everything is back and updated
};

// `ratio`: bytes on the wire for each byte of gradients.
Bounds bounds_of(const Model& model, const LinkCosts& links, double ratio = 1);

// The ratio of the seconds that an all_reduce of the model's bytes takes, without start-ups, to the
// computation's seconds.
double communication_ratio(const Model& model, const LinkCosts& links);
// The model with its computation scaled so that the communication ratio is `rho`.
Model with_communication_ratio(const Model& model, const LinkCosts& links, double rho);

}  // namespace paceline::schedule
