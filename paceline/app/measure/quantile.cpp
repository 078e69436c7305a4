#include "paceline/app/measure/quantile.h"

#include <algorithm>

namespace paceline::measure {

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto place = static_cast<std::size_t>(share * static_cast<double>(values.size()));
  const auto nth = values.begin() + static_cast<std::ptrdiff_t>(std::min(place, values.size() - 1));
  std::nth_element(values.begin(), nth, values.end());
  return *nth;
}

}  // namespace paceline::measure
