// What no schedule can beat (docs/schedules/README.md), start-ups left out, each byte on its
// cheapest path.
#pragma once

#include "paceline/core/schedule/costs.h"
#include "paceline/core/schedule/model.h"

namespace paceline::schedule {

struct Bounds {
  double compute = 0, transfer = 0;  // seconds of an iteration that each alone takes
  // Of an iteration across the barrier: between two updates of tensor i lie the computation of all
  // tensors from i on and, after its gradient, the transfers of all tensors up to i.
  double crossing = 0;
  double with_barrier = 0;  // of one that ends when everything is back and updated
};

// `ratio`: bytes on the wire for each byte of gradients.
Bounds bounds_of(const Model& model, const LinkCosts& links, double ratio = 1);

// Seconds that an all_reduce of the model's bytes takes, start-ups left out, over the computation.
double communication_ratio(const Model& model, const LinkCosts& links);
// The model with its computation scaled so that the communication ratio is `rho`.
Model with_communication_ratio(const Model& model, const LinkCosts& links, double rho);

}  // namespace paceline::schedule
