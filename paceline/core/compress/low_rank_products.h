// Products of a matrix with the few columns of a factor, as PowerSGD needs them (Vogels et al.,
// NeurIPS 2019, algorithm 1). A pass over the matrix does all that the matrix is read for, row by
// row.
//
// The matrix lies row after row, factors lie column after column: a left one has a value for each
// row of the matrix in each column, a right one a value for each column of the matrix. The same
// bits with every instruction set.
#pragma once

#include <cstddef>
#include <span>

namespace paceline::compress {

struct MatrixView {
  std::span<float> values;
  std::size_t columns;

  std::size_t rows() const { return values.size() / columns; }
  std::span<float> row(std::size_t i) const { return values.subspan(i * columns, columns); }
};

// matrix += addend, unless that is empty; then left = matrix * right.
void add_and_multiply(MatrixView matrix, std::span<const float> addend,
                      std::span<const float> right, std::span<float> left);

// right = transposed matrix * left.
void multiply_transposed(MatrixView matrix, std::span<const float> left, std::span<float> right);

// rest = matrix - left * transposed own, unless rest is empty; then matrix = left * transposed
// mean.
void replace_by_product(MatrixView matrix, std::span<const float> left, std::span<const float> own,
                        std::span<const float> mean, std::span<float> rest);

}  // namespace paceline::compress
