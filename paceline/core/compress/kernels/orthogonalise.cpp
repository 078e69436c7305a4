#include "paceline/core/compress/kernels/orthogonalise.h"

#include <cmath>
#include <vector>

namespace paceline::compress {
namespace {

constexpr double kDependent = 1e-5;

template <typename T>
double dot(std::span<const T> left, std::span<const double> right) {
  double sum = 0;
  for (std::size_t i = 0; i < left.size(); ++i) sum += static_cast<double>(left[i]) * right[i];
  return sum;
}

double norm(const std::vector<double>& column) {
  return std::sqrt(dot(std::span<const double>(column), std::span<const double>(column)));
}

}  // namespace

void orthogonalise(std::span<float> columns, std::size_t length) {
  std::vector<double> column(length);
  for (std::size_t begin = 0; begin < columns.size(); begin += length) {
    const std::span<float> stored = columns.subspan(begin, length);
    column.assign(stored.begin(), stored.end());
    const double before = norm(column);
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t other = 0; other < begin; other += length) {
        const std::span<const float> unit = columns.subspan(other, length);
        const double share = dot(unit, std::span<const double>(column));
        for (std::size_t i = 0; i < length; ++i) column[i] -= share * static_cast<double>(unit[i]);
      }
      for (double& value : column) value = static_cast<double>(static_cast<float>(value));
    }
    const double left = norm(column);
    for (std::size_t i = 0; i < length; ++i)
      stored[i] = left > kDependent * before ? static_cast<float>(column[i] / left) : 0;
  }
}

}  // namespace paceline::compress
