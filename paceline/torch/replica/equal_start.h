// How a training begins on all ranks: as the same one, with equal replicas.
#pragma once

#include <cstdint>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/torch/replica/data_parallel_options.h"
#include "paceline/torch/replica/parts/model_parts.h"

namespace paceline::parallel {

// Makes all replicas equal to the root's, after a check that they can be. Collective.
void equalise(const ModelParts& parts, Communicator& group, int root,
              const DataParallelOptions& options);

// A number of its own for each training of the group. Collective.
std::uint64_t agreed_training(Communicator& group);

}  // namespace paceline::parallel
