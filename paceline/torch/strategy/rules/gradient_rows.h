// Gradients of several ranks, one row a rank: what robust rules work on.
//
// A rule reads them block by block of columns, widened to f64, in plain loops of a fixed order. So
// all ranks that hold the same rows get the same bits, whatever their number of threads, and no
// temporary grows with the length of a row.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace paceline::strategy::rules {

// Some columns of all rows, one row after the other. The values are a copy, which may be changed.
struct RowBlock {
  std::int64_t begin = 0;  // the first column
  std::size_t rows = 0, width = 0;
  std::span<double> values;
  std::span<double> row(std::size_t i) const { return values.subspan(i * width, width); }
};

// THREAD: any; the tensor must not change meanwhile.
class GradientRows {
 public:
  // `rows`: [ranks, elements], f32 or f64, contiguous. Those that hold NaN or infinity are left
  // out; each of them is one of `faulty`. THROWS Error (misuse): a tensor of another kind.
  GradientRows(at::Tensor rows, int faulty);

  std::size_t count() const { return kept_.size(); }  // without those that were left out
  int faulty() const { return faulty_; }              // among these; never below 0
  std::int64_t columns() const { return rows_.size(1); }

  // Fills the centre of a block's columns.
  using Centre = std::function<void(const RowBlock&, std::span<double> into)>;

  // A new vector of the rows' type, by block.
  at::Tensor vector_of(const Centre& centre) const;
  at::Tensor row(std::size_t i) const;                             // a copy
  at::Tensor weighted_sum(std::span<const double> weights) const;  // one weight a row
  // |row - centre|^2 of each row. `centre` leaves the block as it is.
  std::vector<double> square_distances(const Centre& centre) const;
  // |row i - row j|^2 at i * count() + j. COST: count()^2 / 2 passes over a row.
  std::vector<double> pair_square_distances() const;

 private:
  void for_each_block(const std::function<void(const RowBlock&)>& work) const;

  at::Tensor rows_;
  std::vector<std::int64_t> kept_;
  int faulty_ = 0;
};

// Columns from `begin` of a vector of f32 or f64.
void read_columns(const at::Tensor& vector, std::int64_t begin, std::span<double> into);
// The sum of weight * row, in the order of the rows.
void add_weighted(const RowBlock& block, std::span<const double> weights, std::span<double> into);

}  // namespace paceline::strategy::rules
