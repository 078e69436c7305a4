// Makes the columns of a matrix orthonormal, in place, by modified Gram-Schmidt, twice, with dot
// products in f64. Column c begins at columns[c * length], so that it is contiguous.
#pragma once

#include <cstddef>
#include <span>

namespace paceline::compress {

// A column that depends on those before it, up to 1e-5 of its norm, becomes 0; otherwise rounding
// noise would become a direction. REQUIRES: length divides columns.size(), or both are 0.
void orthogonalise(std::span<float> columns, std::size_t length);

}  // namespace paceline::compress
