// The layers of a model that a plan speaks of.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/torch/tensor/parallelize.h"

namespace paceline::tensor {

// Whether a path, such as "blocks.3.up", is one that the pattern means. An element * of the pattern
// stands for any one element.
bool matches(std::string_view pattern, std::string_view path);

struct PlannedLayer {
  std::string path;
  std::shared_ptr<torch::nn::Module> module;
  Request request;
};

// In the order of the model. THROWS Error (misuse): as parallelize(), for entries that match
// nothing, or a layer that another entry has.
std::vector<PlannedLayer> planned_layers(const torch::nn::Module& model, const TensorPlan& plan,
                                         int ranks);

}  // namespace paceline::tensor
