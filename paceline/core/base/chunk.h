// The chunk rule, used everywhere: how `count` things are cut into parts whose sizes differ by at
// most one (docs/algorithms/README.md).
#pragma once

#include <algorithm>
#include <cstddef>

namespace paceline {

// Where chunk `index` of `parts` begins, and the one before it ends.
constexpr std::size_t chunk_offset(std::size_t count, int parts, int index) {
  const auto p = static_cast<std::size_t>(parts), i = static_cast<std::size_t>(index);
  return i * (count / p) + std::min(i, count % p);
}

}  // namespace paceline
