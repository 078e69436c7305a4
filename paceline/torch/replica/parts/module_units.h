// The units of a model: parts that compute one after the other, so that a rank needs the parameters
// of one at a time.
#pragma once

#include <torch/nn/module.h>

#include <map>
#include <string>

namespace paceline::parallel {

// The unit of each parameter, by the names that named_parameters() gives. A unit is an element of a
// torch::nn::Sequential or ModuleList that is none itself, with all within it, and has its name. A
// parameter outside of all such elements, or registered in two of them, has none.
std::map<std::string, std::string> units_of(const torch::nn::Module& model);

}  // namespace paceline::parallel
