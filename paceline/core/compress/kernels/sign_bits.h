// Signs as bits: bit i % 8 of byte i / 8 is 1 if value i is not negative (both zeros included). The
// unused bits of the last byte are 0. Vectorised with run-time dispatch (Highway).
#pragma once

#include "paceline/core/base/bytes.h"

namespace paceline::compress {

constexpr std::size_t sign_bytes(std::size_t elements) {
  return (elements + 7) / 8;
}

// Writes the signs and returns the sum of magnitudes, in f64 and in an order that depends only on
// the number of values. The sum is not finite if a value is NaN or infinite. REQUIRES: bits.size()
// == sign_bytes(values.size()).
double pack_signs(std::span<const float> values, MutableBytes bits);

// values[i] = magnitude if its bit is 1, else -magnitude. REQUIRES: as for pack_signs.
void unpack_signs(Bytes bits, float magnitude, std::span<float> values);

// Tells whether the unused bits of the last byte are 0, which is all that makes outside bytes valid
// signs. REQUIRES: bits.size() == sign_bytes(elements).
bool are_signs(Bytes bits, std::size_t elements);

// Each bit of `verdict` becomes 1 if it is 1 for at least half of the voters: a tie is +1. The bits
// beyond the tensor's elements stay 0. REQUIRES: at least one voter; all have the verdict's length.
void majority_vote(std::span<const Bytes> voters, MutableBytes verdict);

}  // namespace paceline::compress
