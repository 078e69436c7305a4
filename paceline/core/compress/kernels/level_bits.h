// Packs levels of few bits into bytes: each takes `bits` bits in two's complement, from the lowest
// bit of the first byte on. The unused bits of the last byte are 0.
#pragma once

#include "paceline/core/base/bytes.h"

namespace paceline::compress {

constexpr std::size_t level_bytes(std::size_t count, int bits) {
  return (count * static_cast<std::size_t>(bits) + 7) / 8;
}

// REQUIRES: 2 <= bits <= 8; levels fit in them; packed.size() == level_bytes(levels.size(), bits).
void pack_levels(std::span<const std::int8_t> levels, int bits, MutableBytes packed);

// Returns false if a level is the one without an opposite, or if unused bits of the last byte are
// not 0. REQUIRES: as for pack_levels.
bool unpack_levels(Bytes packed, int bits, std::span<std::int8_t> levels);

}  // namespace paceline::compress
