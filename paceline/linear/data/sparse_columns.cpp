#include "paceline/linear/data/sparse_columns.h"

#include <numeric>

namespace paceline::linear {

SparseColumns columns_of(const SparseRows& rows, std::size_t first, std::size_t count) {
  SparseRows transposed{.width = rows.size()};
  transposed.starts.assign(count + 1, 0);
  const auto is_ours = [&](std::uint32_t column) {
    return column >= first && column < first + count;
  };
  for (const std::uint32_t column : rows.columns) {
    if (is_ours(column)) ++transposed.starts[column - first + 1];
  }
  std::partial_sum(transposed.starts.begin(), transposed.starts.end(), transposed.starts.begin());
  transposed.columns.resize(transposed.starts.back());
  transposed.values.resize(transposed.starts.back());
  std::vector<std::size_t> next(transposed.starts.begin(), transposed.starts.end() - 1);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const SparseVector row = rows.row(i);
    for (std::size_t k = 0; k < row.entries(); ++k) {
      if (!is_ours(row.indices[k])) continue;
      const std::size_t at = next[row.indices[k] - first]++;
      transposed.columns[at] = static_cast<std::uint32_t>(i);
      transposed.values[at] = row.values[k];
    }
  }
  return {std::move(transposed)};
}

SparseColumns columns_of(const SparseRows& rows) {
  return columns_of(rows, 0, rows.width);
}

}  // namespace paceline::linear
