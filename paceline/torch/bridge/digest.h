// A fingerprint of a model's parameters.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>

namespace paceline {

// SHA-256 over the tensors' elements one after the other, as little-endian contiguous bytes,
// whatever their layout; 64 hexadecimal digits. For `parameters_sha256` hand in model.parameters(),
// which is the order of registration.
std::string sha256_of(std::span<const at::Tensor> tensors);

// 64 bits over the tensor's elements as contiguous bytes, for comparing copies: quick, not for
// secrets. Copies that differ in one 8-byte word never have the same.
std::uint64_t fingerprint_of(const at::Tensor& tensor);

}  // namespace paceline
