// The figures that stand for many measured ones.
#pragma once

#include <vector>

namespace paceline::measure {

// The value below which the share `share` of the values lies; 0 of none. 0 <= share <= 1.
double quantile(std::vector<double> values, double share);

inline double median(std::vector<double> values) {
  return quantile(std::move(values), 0.5);
}

}  // namespace paceline::measure
