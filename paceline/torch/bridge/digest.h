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

// Hashes the tensor's elements as contiguous bytes into 64 bits, to compare copies: it is quick and
// not for secrets. Copies that differ in one 8-byte word never have the same value.
std::uint64_t fingerprint_of(const at::Tensor& tensor);

}  // namespace paceline
