// LayerCost: the seconds and bytes of a layer of a model, as the planner sees it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/base/result.h"
#include "paceline/core/schedule/order/model.h"

namespace paceline::plan {

// Seconds and bytes are those of one mini-batch on one worker, without any transfer. Bytes are
// floating-point numbers because they are scaled to other batches; whole ones are exact.
struct LayerCost {
  double forward = 0, backward = 0;  // seconds; `backward` gives both gradients
  double output_bytes = 0;           // to the next layer; the gradient that comes back has as many
  double weight_bytes = 0;           // its parameters
  double saved_bytes = 0;            // what its forward pass keeps for its backward pass
  // The part of a pass's seconds that does not shrink with its samples.
  double forward_start = 0, backward_start = 0;
  double update = 0;  // seconds to update its parameters, once a step
  double seconds() const { return forward + backward; }
  // A pass of this share of the samples takes so long.
  double forward_of(double share) const {
    return forward_start + share * (forward - forward_start);
  }
  double backward_of(double share) const {
    return backward_start + share * (backward - backward_start);
  }
  bool operator==(const LayerCost&) const = default;
};

// The layers in the order of the forward pass.
using LayerCosts = std::span<const LayerCost>;

inline double weights_of(LayerCosts layers) {
  double bytes = 0;
  for (const LayerCost& layer : layers) bytes += layer.weight_bytes;
  return bytes;
}

// The costs of the layers of a recorded model (schedule/replay/model_file.h), for a step of
// `model.batch` samples. The failure (misuse) names `origin` if the file holds no layers, since an
// earlier release has recorded it.
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
