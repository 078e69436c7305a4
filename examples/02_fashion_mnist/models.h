// The networks of this example.
#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

const std::vector<std::string>& model_names();

// The same seed gives the same initial parameters. `name` is one of model_names().
torch::nn::Sequential make_model(const std::string& name, std::uint64_t seed, at::ScalarType type);

double default_learning_rate(const std::string& name);
