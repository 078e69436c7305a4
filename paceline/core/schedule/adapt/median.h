// The median of step times: a few odd steps do not change it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace paceline::schedule {

// An even number of values has the greater one in the middle. REQUIRES: there are values.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace paceline::schedule
