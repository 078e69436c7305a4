// The largest of some numbers, where a NaN must not be lost: std::max(x, NaN) is x.
#pragma once

#include <cmath>

namespace paceline::test {

// It is NaN if one of them is, so that every comparison with a bound fails.
inline double larger(double one, double other) {
  return std::isnan(one) || one > other ? one : other;
}

}  // namespace paceline::test
