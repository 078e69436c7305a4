// Blocks of rows whose columns are sorted each by itself.
#pragma once

#include <span>

#include "paceline/torch/strategy/rules/gradient_rows.h"

namespace paceline::strategy::rules {

// Each column ascends from the first row to the last.
void sort_columns(const RowBlock& block);
// The median of each column, of an even number of rows the mean of the middle two. The block's
// columns are sorted afterwards.
void take_medians(const RowBlock& block, std::span<double> into);

}  // namespace paceline::strategy::rules
