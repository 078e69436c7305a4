// A few elements and their values, summed over several ranks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "paceline/core/compress/payload/sparse.h"

namespace paceline::compress {

struct SparseSum {
  std::vector<std::uint32_t> indices;  // ascending, each once
  std::vector<float> values;

  static SparseSum of(std::span<const float> values, std::span<const std::uint32_t> indices);
  static SparseSum of(const SparseView& view);
  bool operator==(const SparseSum&) const = default;
};

// The union of both; elements in both are added, `left` first.
SparseSum merged(const SparseSum& left, const SparseSum& right);

// Leaves the `count` largest in `sum` (selection.h's order) and returns the others. `finite` is
// false if a value is not finite.
struct Dropped {
  bool finite = true;
  SparseSum others;
};
Dropped keep_largest(SparseSum& sum, std::size_t count);

// REQUIRES: payload.size() == sparse_bytes(sum.indices.size()).
void write(const SparseSum& sum, MutableBytes payload);

}  // namespace paceline::compress
