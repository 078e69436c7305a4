// Gradients of a few rows, such as those of a large embedding: what travels are the rows.
//
// Nobody knows beforehand how many rows the others have, so there are two rounds: an all_gather of
// counts, then for each parameter that was used one of indices and one of values. Every rank then
// adds up the same rows in the same order (rank order, within a rank the order of the rows), so all
// have the same bits. COST: the rows of all ranks on each rank; where they add up to most of the
// table, a dense gradient is cheaper.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/torch/gradient/step_agreement.h"
#include "paceline/torch/replica/parts/model_parts.h"

namespace paceline::gradient {

// The grad of each parameter that is `used` (by some rank of weight > 0; the same on all ranks)
// becomes the weighted mean over all ranks: coalesced, of layout sparse, one sparse dimension; a
// rank contributes what its grad holds. The others stay, and so do all in a group of one rank. All
// ranks of the group call it together. REQUIRES: weights.total > 0.
void average_sparse(Communicator& group, std::span<const replica::Parameter> parameters,
                    const std::vector<bool>& used, const StepWeights& weights);

}  // namespace paceline::gradient
