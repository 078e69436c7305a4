// A DataParallel trains these: checked parts of a model, and the types in which they compute.
#pragma once

#include <torch/nn/module.h>

#include <string>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/mesh/mesh.h"
#include "paceline/torch/precision/precision.h"
#include "paceline/torch/replica/data_parallel_options.h"
#include "paceline/torch/replica/replica.h"

namespace paceline::parallel {

struct TrainedParts {
  replica::ModelParts parts;
  precision::PrecisionChoice choice = {};
  precision::HalvedTensors halved = {};  // that have 16 bits as long as they are trained
};

// The parts of a model. `mesh`: null: each rank of the group is a replica. THROWS Error (misuse),
// before anything has changed: options that do not go together, or not with the model.
TrainedParts trained_parts_of(torch::nn::Module& model, DeviceMesh* mesh,
                              const DataParallelOptions& options);
// The same for parameters alone.
TrainedParts trained_parts_of(const std::vector<replica::Parameter>& parameters,
                              const DataParallelOptions& options);

// THROWS Error (misuse): ranks that share sequences would keep parameters apart by this synchrony.
void require_no_servers_beside(DeviceMesh& mesh, const std::string& synchrony);

// Told once for each host.
void warn_of_a_slow_processor(const precision::PrecisionChoice& choice, const Communicator& ranks);

// THROWS Error (misuse) that names the option, its value and its range.
void require_in_range(const DataParallelOptions& options);

}  // namespace paceline::parallel
