// The replica of the network to which this worker belongs.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <optional>

#include "options.h"
#include "paceline/core/mesh/mesh.h"
#include "paceline/torch/parallel/parallel.h"

// One worker, or several that share its layers.
struct Replica {
  Replica(paceline::Job& job, const Options& options);
  int workers(const paceline::Job& job) const { return job.world_size() / replicas; }

  int number = 0, replicas = 1;
  std::optional<paceline::DeviceMesh> mesh;  // none: each worker is one
};

// THROWS paceline::Error (misuse): the layers of this network, or what this optimizer looks at,
// cannot be shared by several workers.
void require_shared_layers(const Options& options);

// Splits the layers of the model as the layout says. THROWS paceline::Error: as DataParallel;
// misuse, the options ask for a layout that this network or optimizer does not have.
std::unique_ptr<paceline::DataParallel> make_parallel(paceline::Job& job, const Options& options,
                                                      const paceline::DataParallelOptions& parallel,
                                                      Replica& replica,
                                                      torch::nn::Sequential& model);
