// Selects the elements of a tensor that are worth sending: those of the largest magnitude.
//
// The order is total, magnitude descending, then index ascending, so the selection is the same on
// every processor even with ties. Vectorised with run-time dispatch (Highway).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "paceline/core/compress/kernels/counter_random.h"

namespace paceline::compress {

// The number of elements that a ratio selects: ceil(ratio * elements - 1e-6), at least 1 and at
// most all; 0 of none. REQUIRES: 0 < ratio <= 1.
std::size_t count_of(double ratio, std::size_t elements);

// Selects the first indices.size() elements of the order, sorted by index. Returns false if a value
// is NaN or infinite. REQUIRES: indices.size() <= values.size() < 2^32.
bool select_largest(std::span<const float> values, std::span<std::uint32_t> indices);

// Selects from values + more, and writes that sum into `sum`, in one pass over memory. REQUIRES:
// equal lengths; `sum` is `values` or overlaps with neither.
bool select_largest_of_sum(std::span<const float> values, std::span<const float> more,
                           std::span<float> sum, std::span<std::uint32_t> indices);

// Selects about `count` elements by a threshold from a sample of 1 % (deep gradient compression,
// docs/compression/dgc.md): at least 0.8 * count and at most count of them, the first of the order,
// sorted by index. The stream, whose purpose must be `sample`, says where the sample begins.
// Returns nothing if a value is NaN or infinite. REQUIRES: count <= values.size() < 2^32.
std::optional<std::vector<std::uint32_t>> select_by_sample(std::span<const float> values,
                                                           std::size_t count,
                                                           const RandomStream& stream);

}  // namespace paceline::compress
