// An inner product in f64 whose bits depend neither on threads nor on where the vectors lie.
#pragma once

#include <array>
#include <cstddef>

namespace paceline::quasi_newton {

// Returns the sum of left[i] * right[i]. Eight sums stand side by side, so that the compiler can
// use vectors, and are added in a fixed order.
template <typename T>
double inner_product(const T* left, const T* right, std::size_t count) {
  constexpr std::size_t kLanes = 8;
  std::array<double, kLanes> lanes{};
  const auto term = [=](std::size_t i) {
    return static_cast<double>(left[i]) * static_cast<double>(right[i]);
  };
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
  for (std::size_t lane = 0; i < count; ++i, ++lane) lanes[lane] += term(i);
  double whole = 0;
  for (const double lane : lanes) whole += lane;
  return whole;
}

}  // namespace paceline::quasi_newton
