// Samples of a linear model: sparse rows with a label each. A value.
#pragma once

#include <span>
#include <vector>

#include "paceline/linear/data/sparse_rows.h"

namespace paceline::linear {

struct Samples {
  SparseRows rows;
  std::vector<double> labels;  // one a row

  std::size_t size() const { return labels.size(); }
  bool operator==(const Samples&) const = default;
};

// These samples, in this order; the width stays.
Samples select(const Samples& samples, std::span<const std::size_t> which);

}  // namespace paceline::linear
