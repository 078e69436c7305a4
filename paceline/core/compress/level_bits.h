// Levels of few bits, in bytes: two's complement of `bits` bits each, one after the other from the
// lowest bit of the first byte on. The last byte's rest is 0.
#pragma once

#include "paceline/core/base/bytes.h"

namespace paceline::compress {

constexpr std::size_t level_bytes(std::size_t count, int bits) {
  return (count * static_cast<std::size_t>(bits) + 7) / 8;
}

// REQUIRES: 2 <= bits <= 8; levels fit in them; packed.size() == level_bytes(levels.size(), bits).
void pack_levels(std::span<const std::int8_t> levels, int bits, MutableBytes packed);

// False: a level is the one that has no opposite, or the last byte's rest is not 0. REQUIRES: as
// above.
bool unpack_levels(Bytes packed, int bits, std::span<std::int8_t> levels);

}  // namespace paceline::compress
