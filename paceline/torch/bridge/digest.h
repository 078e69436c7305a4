// A fingerprint of a model's parameters.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string>

namespace paceline {

// SHA-256 over the tensors' elements one after the other, as little-endian contiguous bytes,
// whatever their layout; 64 hexadecimal digits. For `parameters_sha256` hand in model.parameters(),
// which is the order of registration.
std::string sha256_of(std::span<const at::Tensor> tensors);

}  // namespace paceline
