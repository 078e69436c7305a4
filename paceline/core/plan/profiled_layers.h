// The layers of a recorded model (schedule/replay/model_file.h), as the planner takes them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/base/result.h"
#include "paceline/core/plan/layer_cost.h"
#include "paceline/core/schedule/order/model.h"

namespace paceline::plan {

// The costs of the layers for a step of `model.batch` samples. The failure (misuse) names `origin`
// if the file holds no layers, since an earlier release has recorded it.
Result<std::vector<LayerCost>> profiled_layers(const schedule::Model& model,
                                               std::string_view origin);

// A layer of the model that shall be cut.
struct NamedLayer {
  std::string name;
  std::size_t parameters = 0;  // elements
};

// The failure (misuse) names the first layer in which the profile is one of another model, with
// both sides. Layers that the profile gives no name agree with any.
Result<Done> check_profile_of(const schedule::Model& profile, std::string_view origin,
                              std::span<const NamedLayer> layers);

}  // namespace paceline::plan
