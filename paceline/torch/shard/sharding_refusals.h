// Sharded replicas refuse what they cannot do, before the first step.
#pragma once

#include <torch/optim/optimizer.h>

#include <optional>
#include <string>
#include <vector>

#include "paceline/core/base/base.h"
#include "paceline/torch/replica/replica.h"

namespace paceline::shard {

// THROWS Error (misuse), by name: options that do not go with options.zero_stage, or parameters.
void require_shardable(const replica::ModelParts& parts, const DataParallelOptions& options);

// The 16 bits in which gradients travel with this DataParallelOptions::compression; nothing: as
// they are.
std::optional<Dtype> wire_of(const std::string& compression);

// A text on an optimizer that would step whole parameters, or looks at whole tensors; empty: it may
// step the segments.
std::string complaint_about_optimizer(const torch::optim::Optimizer& optimizer,
                                      const std::vector<replica::Parameter>& parameters, int stage);

}  // namespace paceline::shard
