#include "paceline/torch/strategy/rules/sorted_columns.h"

namespace paceline::strategy::rules {

// Odd-even transposition: whole rows are compared, which vector instructions do for many columns
// at once.
void sort_columns(const RowBlock& block) {
  for (std::size_t round = 0; round < block.rows; ++round) {
    for (std::size_t i = round % 2; i + 1 < block.rows; i += 2) {
      double* const low = block.row(i).data();
      double* const high = block.row(i + 1).data();
      for (std::size_t c = 0; c < block.width; ++c) {
        const double a = low[c], b = high[c];
        low[c] = b < a ? b : a;
        high[c] = b < a ? a : b;
      }
    }
  }
}

void take_medians(const RowBlock& block, std::span<double> into) {
  sort_columns(block);
  const std::span<const double> low = block.row((block.rows - 1) / 2),
                                high = block.row(block.rows / 2);
  for (std::size_t c = 0; c < block.width; ++c) into[c] = 0.5 * low[c] + 0.5 * high[c];
}

}  // namespace paceline::strategy::rules
