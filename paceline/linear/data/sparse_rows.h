// Sparse rows: a matrix as the samples of a data set are read, one sparse vector a row (CSR). A
// value: no threads, no pointers into other memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace paceline::linear {

// A sparse vector that lies in someone else's memory. Indices rise strictly; value k belongs to
// index k.
struct SparseVector {
  std::span<const std::uint32_t> indices;
  std::span<const double> values;

  std::size_t entries() const { return indices.size(); }
};

double squared_norm(const SparseVector& sparse);
// The product with a dense vector. REQUIRES: every index is below dense.size().
double dot(const SparseVector& sparse, std::span<const double> dense);
// dense += factor * sparse. REQUIRES: every index is below dense.size().
void add(double factor, const SparseVector& sparse, std::span<double> dense);

struct SparseRows {
  std::size_t width = 0;                  // columns; every entry of `columns` is below it
  std::vector<std::size_t> starts = {0};  // row i: entries [starts[i], starts[i + 1])
  std::vector<std::uint32_t> columns;     // rising strictly within a row
  std::vector<double> values;

  std::size_t size() const { return starts.size() - 1; }  // rows
  std::size_t entries() const { return columns.size(); }
  SparseVector row(std::size_t i) const;
  // Appends a row; widens the matrix where the row needs it. REQUIRES: indices rise strictly.
  void append(const SparseVector& row);
  bool operator==(const SparseRows&) const = default;
};

// These rows, in this order; the width stays.
SparseRows select(const SparseRows& rows, std::span<const std::size_t> which);

}  // namespace paceline::linear
