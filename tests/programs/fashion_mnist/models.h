// The networks of this program.
#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

#include "paceline/torch/pipeline/pipeline.h"
#include "paceline/torch/tensor/tensor.h"

const std::vector<std::string>& model_names();

// The same seed gives the same initial parameters. `name` is one of model_names().
torch::nn::Sequential make_model(const std::string& name, std::uint64_t seed, at::ScalarType type);

// How inputs of this type are made where the model lies.
inline at::TensorOptions beside(const torch::nn::Sequential& model, at::ScalarType type) {
  return at::TensorOptions(type).device(model->parameters().front().device());
}

// The same network as a list of layers, which are numbered as those of the Sequential. Its initial
// parameters are others, because each layer draws its own from the seed.
paceline::Layers make_layers(const std::string& name, std::uint64_t seed, at::ScalarType type);

// How its layers are split among the ranks of the axis tp; empty: they are not.
paceline::TensorPlan plan_of(const std::string& name);

double default_learning_rate(const std::string& name);
