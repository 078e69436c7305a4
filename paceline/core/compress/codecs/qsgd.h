// The codec qsgd (Alistarh et al. 2017), and int8 and terngrad (Wen et al. 2017) as settings of it.
// Values become random levels between 0 and the norm of their bucket, 2 to 8 bits each, unbiased.
#pragma once

#include "paceline/core/base/bytes.h"
#include "paceline/core/compress/kernels/quantise.h"
#include "paceline/core/compress/payload/codec.h"

namespace paceline::compress {

struct QsgdSettings {
  int bits = 4;              // of a level: 2 to 8; levels reach 2^(bits-1) - 1
  std::size_t bucket = 512;  // elements that share a norm; a longer bucket holds the whole tensor
  Norm norm = Norm::l2;
  // If above 0, a norm is at most `clip` root mean squares of its bucket, and larger values are cut
  // to it: less variance, at the price of a bias.
  double clip = 0;
};

// THROWS misuse: settings out of range.
std::unique_ptr<Codec> qsgd_codec(const QsgdSettings& settings = {});
std::unique_ptr<Codec> int8_codec(std::size_t bucket = 512);  // 8 bits, largest magnitude
std::unique_ptr<Codec> terngrad_codec(double clip = 0);  // 2 bits, one bucket, largest magnitude

// Packs levels of few bits into bytes: each takes `bits` bits in two's complement, from the lowest
// bit of the first byte on. The unused bits of the last byte are 0.
constexpr std::size_t level_bytes(std::size_t count, int bits) {
  return (count * static_cast<std::size_t>(bits) + 7) / 8;
}

// REQUIRES: 2 <= bits <= 8; levels fit in them; packed.size() == level_bytes(levels.size(), bits).
void pack_levels(std::span<const std::int8_t> levels, int bits, MutableBytes packed);

// Returns false if a level is the one without an opposite, or if unused bits of the last byte are
// not 0. REQUIRES: as for pack_levels.
bool unpack_levels(Bytes packed, int bits, std::span<std::int8_t> levels);

}  // namespace paceline::compress
