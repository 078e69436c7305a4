#include "paceline/core/collective/mixing/spectral_norm.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace paceline::collective {
namespace {

using Vector = std::vector<double>;

double length(std::span<const double> vector) {
  double sum = 0;
  for (const double x : vector) sum += x * x;
  return std::sqrt(sum);
}

// Makes `vector` the unit normal of the reflection that leaves of it only its first entry, which is
// returned; its sign does not matter. All zeros: nothing is to reflect.
double become_normal(std::span<double> vector) {
  const double whole = length(vector);
  if (whole == 0) return 0;
  vector[0] += vector[0] < 0 ? -whole : whole;
  const double normal = length(vector);
  for (double& x : vector) x /= normal;
  return whole;
}

class Bidiagonal {
 public:
  Bidiagonal(Vector matrix, std::size_t n) : a_(std::move(matrix)), n_(n), sums_(n) {
    for (std::size_t k = 0; k < n_; ++k) {
      reflect_column(k);
      if (k + 1 < n_) reflect_row(k);
    }
  }

  // Diagonal and upper diagonal in turns.
  const Vector& entries() const { return entries_; }

 private:
  std::span<double> row(std::size_t i, std::size_t from) {
    return std::span(a_).subspan(i * n_ + from, n_ - from);
  }

  void reflect_column(std::size_t k) {
    Vector normal;
    for (std::size_t i = k; i < n_; ++i) normal.push_back(a_[i * n_ + k]);
    entries_.push_back(become_normal(normal));
    if (entries_.back() == 0) return;
    std::ranges::fill(sums_, 0.0);
    for (std::size_t i = k; i < n_; ++i)
      for (std::size_t j = k + 1; j < n_; ++j) sums_[j] += normal[i - k] * a_[i * n_ + j];
    for (std::size_t i = k; i < n_; ++i)
      for (std::size_t j = k + 1; j < n_; ++j) a_[i * n_ + j] -= 2 * normal[i - k] * sums_[j];
  }

  void reflect_row(std::size_t k) {
    const auto tail = row(k, k + 1);
    Vector normal(tail.begin(), tail.end());
    entries_.push_back(become_normal(normal));
    if (entries_.back() == 0) return;
    for (std::size_t i = k + 1; i < n_; ++i) {
      const auto other = row(i, k + 1);
      double sum = 0;
      for (std::size_t j = 0; j < normal.size(); ++j) sum += normal[j] * other[j];
      for (std::size_t j = 0; j < normal.size(); ++j) other[j] -= 2 * sum * normal[j];
    }
  }

  Vector a_;
  std::size_t n_;
  Vector sums_;
  Vector entries_;
};

// Sylvester: an eigenvalue is not below x where a pivot of (matrix - x) is not below zero.
bool has_eigenvalue_from(double x, const Vector& beside_diagonal) {
  double pivot = -x;
  for (const double entry : beside_diagonal) {
    pivot = -x - entry * entry / pivot;
    if (pivot >= 0) return true;
  }
  return false;
}

}  // namespace

double spectral_norm(std::vector<double> matrix, int n) {
  const double scale = length(matrix);
  if (scale == 0) return 0;
  for (double& entry : matrix) entry /= scale;
  const Bidiagonal reduced(std::move(matrix), static_cast<std::size_t>(n));
  double low = 0, high = 2;  // the Frobenius norm is 1
  constexpr int kBitsOfADouble = 54;
  for (int bit = 0; bit < kBitsOfADouble; ++bit) {
    const double middle = (low + high) / 2;
    (has_eigenvalue_from(middle, reduced.entries()) ? low : high) = middle;
  }
  return scale * low;
}

}  // namespace paceline::collective
