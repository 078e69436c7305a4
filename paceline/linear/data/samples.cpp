#include "paceline/linear/data/samples.h"

namespace paceline::linear {

Samples select(const Samples& samples, std::span<const std::size_t> which) {
  Samples selected{.rows = select(samples.rows, which)};
  for (const std::size_t i : which) selected.labels.push_back(samples.labels[i]);
  return selected;
}

}  // namespace paceline::linear
