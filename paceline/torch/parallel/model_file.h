// Writes a model as torch::save() does, so that the file is there as a whole or not at all.
#pragma once

#include <torch/nn/module.h>

#include <string>

#include "paceline/torch/parallel/whole_state.h"

namespace paceline::parallel {

// `torch::load(model, file)` reads it, also without Paceline. `state` has the values of the model's
// tensors. THROWS Error (io), with the path and the system's reason.
void write_model_file(const torch::nn::Module& model, const WholeState& state,
                      const std::string& file);

}  // namespace paceline::parallel
