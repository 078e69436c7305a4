// The model whose stages stand on the ranks of a pipeline, as one process would have it.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/ordered_dict.h>

#include <string>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/torch/pipeline/stages_of_rank.h"

namespace paceline::pipeline {

// All parameters and buffers by name, parameters first: copies, on every rank. `chunks`: this
// rank's. Every rank of `group`, which are the placement's ranks, calls it, between steps.
torch::OrderedDict<std::string, at::Tensor> whole_state(const Placement& placement,
                                                        std::vector<Chunk>& chunks,
                                                        Communicator& group);

// SHA-256 over the parameters in the order of the stages, on every rank. COST: memory for one
// tensor beside the stages, and where ranks divide or split parameters for those of one stage.
std::string whole_sha256(const Placement& placement, std::vector<Chunk>& chunks,
                         Communicator& group);

}  // namespace paceline::pipeline
