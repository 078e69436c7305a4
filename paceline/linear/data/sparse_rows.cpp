#include "paceline/linear/data/sparse_rows.h"

#include <algorithm>

namespace paceline::linear {

double squared_norm(const SparseVector& sparse) {
  double sum = 0;
  for (const double value : sparse.values) sum += value * value;
  return sum;
}

double dot(const SparseVector& sparse, std::span<const double> dense) {
  double sum = 0;
  for (std::size_t k = 0; k < sparse.entries(); ++k)
    sum += sparse.values[k] * dense[sparse.indices[k]];
  return sum;
}

void add(double factor, const SparseVector& sparse, std::span<double> dense) {
  for (std::size_t k = 0; k < sparse.entries(); ++k)
    dense[sparse.indices[k]] += factor * sparse.values[k];
}

SparseVector SparseRows::row(std::size_t i) const {
  const std::size_t begin = starts[i], count = starts[i + 1] - begin;
  return {std::span(columns).subspan(begin, count), std::span(values).subspan(begin, count)};
}

void SparseRows::append(const SparseVector& row) {
  columns.insert(columns.end(), row.indices.begin(), row.indices.end());
  values.insert(values.end(), row.values.begin(), row.values.end());
  starts.push_back(columns.size());
  if (!row.indices.empty())
    width = std::max<std::size_t>(width, row.indices.back() + std::size_t{1});
}

SparseRows select(const SparseRows& rows, std::span<const std::size_t> which) {
  SparseRows selected{.width = rows.width};
  for (const std::size_t i : which) selected.append(rows.row(i));
  return selected;
}

}  // namespace paceline::linear
