// Masters: parameters of float32 that an optimizer steps, of a model that computes in 16 bits.
#pragma once

#include <c10/core/ScalarType.h>
#include <torch/nn/module.h>

#include <functional>

#include "paceline/torch/replica/replica.h"

namespace paceline::precision {

// Turns the parameters and buffers of the model's layers into `type`, except those of norms:
// BatchNorm, SyncBatchNorm, LayerNorm, and layers for which `is_norm` is true. A parameter stays
// the same tensor. What is trained in `parts`, which are the model's, becomes its master: a copy of
// what it was (Parameter::computed). THROWS Error (misuse), by name, before anything has changed: a
// trained parameter that is not float32, or has sparse gradients.
void halve(torch::nn::Module& model, parallel::ModelParts& parts, at::ScalarType type,
           const std::function<bool(const torch::nn::Module&)>& is_norm);

// THROWS Error (misuse), by name: a trained parameter that is not float32.
void require_float32(const parallel::ModelParts& parts);

}  // namespace paceline::precision
