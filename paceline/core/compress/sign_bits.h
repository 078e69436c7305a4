// Signs as bits: bit i % 8 of byte i / 8 is 1 where value i is not negative (so for both zeros);
// the last byte's rest is 0. Vectorised with run-time dispatch (Highway).
#pragma once

#include "paceline/core/base/bytes.h"

namespace paceline::compress {

constexpr std::size_t sign_bytes(std::size_t elements) {
  return (elements + 7) / 8;
}

// Writes the signs and returns the sum of magnitudes, in f64 and in an order that depends on the
// number of values alone. Not finite: a value is NaN or infinite. REQUIRES: bits.size() ==
// sign_bytes(values.size()).
double pack_signs(std::span<const float> values, MutableBytes bits);

// values[i] = magnitude where its bit is 1, else -magnitude. REQUIRES: as above.
void unpack_signs(Bytes bits, float magnitude, std::span<float> values);

// Whether the last byte's rest is 0, which makes bytes from outside signs. REQUIRES: as above.
bool are_signs(Bytes bits, std::size_t elements);

// Each bit of `verdict` is 1 where at least half of the voters have 1: a tie is +1. The bits beyond
// the tensor's elements stay 0. REQUIRES: at least one voter; all of verdict's length.
void majority_vote(std::span<const Bytes> voters, MutableBytes verdict);

}  // namespace paceline::compress
