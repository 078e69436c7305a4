// Products of a matrix with the few columns of a factor, for PowerSGD (Vogels et al., NeurIPS 2019,
// algorithm 1). Each function reads the matrix once, row by row.
//
// The matrix is stored row by row, factors column by column: each column of a left factor has a
// value for each row of the matrix, each column of a right factor one for each column of the
// matrix. Results have the same bits with every instruction set.
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
