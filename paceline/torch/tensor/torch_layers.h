// Layers of torch, which Paceline's replace where they can be replaced.
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

namespace paceline::tensor {

// Paceline's layer over the same parameters, in place of one of torch's. Null: it has none.
std::shared_ptr<torch::nn::Module> replacement_of(const torch::nn::Module& layer);

// Whether the layer at this path of the model is an element of a Sequential, which calls what it
// holds; other modules call members of a type of their own.
bool is_replaceable(torch::nn::Module& model, const std::string& path);

// Puts `layer`, one that replacement_of() made, where the path leads. REQUIRES: is_replaceable().
void replace(torch::nn::Module& model, const std::string& path,
             const std::shared_ptr<torch::nn::Module>& layer);

}  // namespace paceline::tensor
