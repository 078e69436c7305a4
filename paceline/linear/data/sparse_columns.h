// Sparse columns: a matrix as methods that walk over features read it (CSC). A value.
#pragma once

#include <cstddef>

#include "paceline/linear/data/sparse_rows.h"

namespace paceline::linear {

// The columns of a matrix are the rows of its transpose, and are kept as such.
struct SparseColumns {
  SparseRows transposed;

  std::size_t size() const { return transposed.size(); }   // columns
  std::size_t height() const { return transposed.width; }  // rows of the matrix
  // Its indices are rows of the matrix.
  SparseVector column(std::size_t j) const { return transposed.row(j); }
};

// Columns [first, first + count) of the matrix; column j of the result is column first + j.
// REQUIRES: first + count is at most rows.width.
SparseColumns columns_of(const SparseRows& rows, std::size_t first, std::size_t count);
SparseColumns columns_of(const SparseRows& rows);  // all

}  // namespace paceline::linear
