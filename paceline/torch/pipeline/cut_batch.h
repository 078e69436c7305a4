// Cuts a batch into micro-batches.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "paceline/torch/pipeline/stages_of_rank.h"

namespace paceline::pipeline {

// The parts are those of torch.tensor_split. `data`: where the first stage is, otherwise null;
// `target`: where the last one is, otherwise null. THROWS Error (misuse): the target has not
// `samples` rows. REQUIRES: samples >= parts.
MicroBatches cut_batch(const Tensors* data, const at::Tensor* target, std::int64_t samples,
                       int parts);

}  // namespace paceline::pipeline
