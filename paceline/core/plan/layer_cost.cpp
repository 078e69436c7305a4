#include "paceline/core/plan/layer_cost.h"

#include <fmt/format.h>

namespace paceline::plan {
namespace {

constexpr std::string_view kRemedy =
    "record it again with: paceline profile --output FILE -- "
    "PROGRAM";

Failure wrong_profile(std::string_view origin, std::string_view what) {
  return {Fault::misuse, fmt::format("profile {}: {}; {}", origin, what, kRemedy), {}};
}

// The tensors of layer "blocks.0" are "blocks.0.up.weight" and the like.
double update_of(const schedule::Layer& layer, const schedule::Model& model) {
  double seconds = 0;
  for (const schedule::Tensor& tensor : model.tensors)
    if (!layer.name.empty() && tensor.name.starts_with(layer.name + ".")) seconds += tensor.update;
  return seconds;
}

}  // namespace

Result<std::vector<LayerCost>> profiled_layers(const schedule::Model& model,
                                               std::string_view origin) {
  if (model.layers.empty())
    return wrong_profile(origin,
                         "it tells of tensors but not of layers, as files of earlier releases and "
                         "of programs without Layers do, so it cannot be cut into stages");
  std::vector<LayerCost> layers;
  for (const schedule::Layer& layer : model.layers)
    layers.push_back({.forward = layer.forward,
                      .backward = layer.backward,
                      .output_bytes = static_cast<double>(layer.output_bytes),
                      .weight_bytes = static_cast<double>(layer.weight_bytes),
                      .saved_bytes = static_cast<double>(layer.saved_bytes),
                      .forward_start = layer.forward_start,
                      .backward_start = layer.backward_start,
                      .update = update_of(layer, model)});
  return layers;
}

Result<Done> check_profile_of(const schedule::Model& profile, std::string_view origin,
                              std::span<const NamedLayer> layers) {
  if (profile.layers.size() != layers.size())
    return wrong_profile(origin, fmt::format("it is of another model: it has {} layers, and this "
                                             "model {}",
                                             profile.layers.size(), layers.size()));
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const schedule::Layer& recorded = profile.layers[i];
    const bool is_named = !recorded.name.empty();
    if ((is_named && recorded.name != layers[i].name) ||
        recorded.parameters != layers[i].parameters)
      return wrong_profile(
          origin,
          fmt::format("it is of another model: its layer {} is '{}' with {} parameters, "
                      "and this model's is '{}' with {}",
                      i, recorded.name, recorded.parameters, layers[i].name, layers[i].parameters));
  }
  return Done();
}

}  // namespace paceline::plan
