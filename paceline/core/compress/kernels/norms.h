// Norms of values, vectorised with run-time dispatch (Highway). Sums are made in f64, in an order
// that depends on the number of values alone: the bits are the same on every processor.
#pragma once

#include <span>

namespace paceline::compress {

// Each result is NaN or infinite if a value is.
float largest_magnitude(std::span<const float> values);
double sum_of_magnitudes(std::span<const float> values);
double sum_of_squares(std::span<const float> values);

}  // namespace paceline::compress
