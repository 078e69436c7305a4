#include "paceline/linear/threads/sparsity.h"

#include <fmt/format.h>

#include <algorithm>

#include "paceline/linear/data/sparse_columns.h"

namespace paceline::linear {
namespace {

// Counts the rows that have a column in common with a row, which is one of them.
class Neighbours {
 public:
  explicit Neighbours(const SparseRows& rows)
      : rows_(rows), columns_(columns_of(rows)), seen_by_(rows.size(), rows.size()) {}

  std::size_t count(std::size_t i) {
    std::size_t found = 0;
    for (const std::uint32_t j : rows_.row(i).indices) {
      for (const std::uint32_t other : columns_.column(j).indices) {
        found += seen_by_[other] != i;
        seen_by_[other] = i;
      }
      if (found == rows_.size()) break;
    }
    return found;
  }

 private:
  const SparseRows& rows_;
  const SparseColumns columns_;
  std::vector<std::size_t> seen_by_;  // by row: the row whose neighbour it was last
};

}  // namespace

std::vector<std::size_t> samples_with_feature(const SparseRows& rows) {
  std::vector<std::size_t> counts(rows.width);
  for (const std::uint32_t column : rows.columns) ++counts[column];
  return counts;
}

std::string Sparsity::text() const {
  return fmt::format(
      "a sample has up to {} features, a feature is in up to {:.3g} % of the samples, and a sample "
      "shares features with up to {:.3g} % of them",
      omega, 100 * delta, 100 * rho);
}

Sparsity sparsity_of(const SparseRows& rows, std::size_t most_rows) {
  Sparsity sparsity;
  if (rows.size() == 0) return sparsity;
  const auto share = [&](std::size_t count) {
    return static_cast<double>(count) / static_cast<double>(rows.size());
  };
  for (std::size_t i = 0; i < rows.size(); ++i)
    sparsity.omega = std::max(sparsity.omega, rows.row(i).entries());
  for (const std::size_t count : samples_with_feature(rows))
    sparsity.delta = std::max(sparsity.delta, share(count));
  Neighbours neighbours(rows);
  const std::size_t tried = std::min(most_rows, rows.size());
  for (std::size_t k = 0; k < tried && sparsity.rho < 1; ++k)
    sparsity.rho = std::max(sparsity.rho, share(neighbours.count(k * rows.size() / tried)));
  return sparsity;
}

}  // namespace paceline::linear
