// The mean over all ranks of what their optimizers keep.
#pragma once

#include "paceline/core/collective/group/communicator.h"
#include "paceline/torch/optimizers/optimizers.h"
#include "paceline/torch/replica/synchrony.h"

namespace paceline::replica {

// Collective: momenta and the like become their mean over all ranks, in which this rank counts
// `share` times; all shares add up to the number of ranks. A tensor that an optimizer of some rank
// has not made yet counts as zero there. Counts of steps become their mean too, rounded, and at
// least 1: a moment after n steps is 1 - beta^n of what it would be in the end, so that the mean of
// moments fits the mean of the counts best. Optimizers are equal on all ranks afterwards. All ranks
// have optimizers of the same types over the same parameters. THROWS Error (misuse): an optimizer
// has a state that is not known.
void average_optimizers(const Optimizers& optimizers, Communicator& group, double share = 1);

// THROWS Error (misuse): an optimizer has a state that is not known. `what`: the name of the
// feature that asks, for the text.
void require_known_optimizers(const Optimizers& optimizers, const std::string& what);

// The slots of a parameter of an optimizer; nullptr: it has none yet, and `make` is false.
struct ParameterSlots {
  at::Tensor parameter;
  optimizers::OptimizerSlots slots;
};
// Those of all parameters, in the optimizers' order; a parameter that was never stepped gets a
// state when `make`, and is left out otherwise.
std::vector<ParameterSlots> slots_of(const Optimizers& optimizers, bool make);

}  // namespace paceline::replica
