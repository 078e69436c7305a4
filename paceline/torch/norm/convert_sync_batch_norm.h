// Replaces BatchNorm by SyncBatchNorm in a whole model.
#pragma once

#include <torch/nn/module.h>

#include <cstddef>
#include <string>
#include <vector>

#include "paceline/torch/norm/sync_batch_norm.h"

namespace paceline {

// Makes every BatchNorm1d, 2d, 3d inside a torch::nn::Sequential, at any depth, a SyncBatchNorm
// over the same parameters and buffers, and returns how many it made. A BatchNorm that is a member
// of another module cannot be replaced from outside, because that module's forward() calls its
// member; THROWS Error (misuse) that names all of these and changes nothing: declare them as
// paceline::SyncBatchNorm. Optimizers and DataParallel may be made before or after; the latter only
// finds what was there.
std::size_t convert_sync_batch_norm(torch::nn::Module& model);

struct NamedSyncBatchNorm {
  std::string name;  // its path in the model
  SyncBatchNormImpl* layer = nullptr;
};

// Those in the model, itself included.
std::vector<NamedSyncBatchNorm> sync_batch_norms_in(torch::nn::Module& model);

}  // namespace paceline
