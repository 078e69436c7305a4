// The chunk rule, used everywhere, cuts `count` elements into parts whose sizes differ by at most
// one (docs/algorithms/README.md).
#pragma once

#include <algorithm>
#include <cstddef>

namespace paceline {

// The begin of chunk `index` of `parts`, which is the end of the one before it.
constexpr std::size_t chunk_offset(std::size_t count, int parts, int index) {
  const auto p = static_cast<std::size_t>(parts), i = static_cast<std::size_t>(index);
  return i * (count / p) + std::min(i, count % p);
}

}  // namespace paceline
