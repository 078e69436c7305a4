// The largest singular value of a dense matrix.
#pragma once

#include <vector>

namespace paceline::collective {

// |M|_2 of an n x n matrix by rows, to about 1e-15 of its Frobenius norm, in O(n^3): Householder
// reflections make it bidiagonal (Golub, Kahan, 1965), and bisection finds the largest eigenvalue
// of the tridiagonal matrix that has the two diagonals in turns beside a diagonal of zeros. Unlike
// the eigenvalues of M^T M this keeps all digits of a small norm.
double spectral_norm(std::vector<double> matrix, int n);

}  // namespace paceline::collective
