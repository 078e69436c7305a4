// How often the rows of a matrix meet in a column: the three numbers on which the speed of Hogwild!
// depends (Niu, Recht, Re, Wright, NeurIPS 2011, section 2).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "paceline/linear/data/sparse_rows.h"

namespace paceline::linear {

// The number of rows that have an entry in column j.
std::vector<std::size_t> samples_with_feature(const SparseRows& rows);

// Hogwild! gains most where all three are small.
struct Sparsity {
  std::size_t omega = 0;     // most entries of a row
  double delta = 0;          // largest share of the rows that one column meets
  double rho = 0;            // largest share of the rows that one row has a column in common with
  std::string text() const;  // a sentence for the user
};

// `most_rows`: rho is the largest over at most so many rows, at even distances. COST: for each of
// these, the entries of the columns that it meets.
Sparsity sparsity_of(const SparseRows& rows, std::size_t most_rows = 1000);

}  // namespace paceline::linear
