// Hooks on all trained parameters: from autograd to the synchrony, past those who look at gradients
// before they go on their way.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/replica/batch_weight.h"
#include "paceline/torch/replica/gated_update.h"
#include "paceline/torch/replica/parts/model_parts.h"
#include "paceline/torch/replica/synchrony.h"

namespace paceline::replica {

// Hooks tell these, who outlive them.
struct HookListeners {
  Synchrony& synchrony;
  GatedUpdate& gates;
  const BatchWeight& weight;
  std::function<bool(std::size_t parameter)> arriving;
  std::function<void()> master_arriving;  // before `arriving`, of a parameter that has a master
};

// `computes_in_place`: gradients are computed where the synchrony says.
std::vector<GradientHook> hooks_on(const ModelParts& parts, const HookListeners& listeners,
                                   bool computes_in_place);

// A parameter whose gradients do not come by its hook any more; empty: there is none.
std::string not_hooked_parameter(const ModelParts& parts, const std::vector<GradientHook>& hooks);

}  // namespace paceline::replica
