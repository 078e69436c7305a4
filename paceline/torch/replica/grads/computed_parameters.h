// Parameters that a model computes with in 16 bits (Parameter::computed), beside their masters of
// float32, which travel and are stepped.
#pragma once

#include <torch/optim/optimizer.h>

#include <vector>

#include "paceline/torch/replica/parts/model_parts.h"

namespace paceline::replica {

std::vector<Parameter> masters_of(const ModelParts& parts);

// The parameter's gradient of 16 bits, times `factor`, goes on in its master's, in which gradients
// add up and travel.
void widen_gradient(const Parameter& parameter, double factor);

// The model takes the values of its masters, rounded to nearest.
void write_model(const ModelParts& parts);
// Masters take what was loaded into the model since: where it is not what they were rounded to.
void read_model(const ModelParts& parts);

// Between synchronize() and the step a program may clip by the model's parameters, whose gradients
// their masters have.
void show_gradients_of_masters(const ModelParts& parts);
void hide_gradients_of_masters(const ModelParts& parts);

// THROWS Error (misuse): the optimizer would step the model in 16 bits.
void refuse_model_parameters(const ModelParts& parts, const torch::optim::Optimizer& optimizer);

}  // namespace paceline::replica
