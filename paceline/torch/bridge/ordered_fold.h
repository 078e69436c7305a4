// Sums in f64 whose bits depend neither on the number of threads nor on how memory is aligned, so
// that ranks with equal tensors compute equal sums without telling each other.
#pragma once

#include <array>
#include <cstddef>

namespace paceline {

// Joins term(0), ..., term(count - 1), starting from 0. Sums stand side by side, so that the
// compiler can use vectors, and are joined in a fixed order.
template <typename Term, typename Join>
double ordered_fold(std::size_t count, Term term, Join join) {
  constexpr std::size_t kLanes = 8;
  std::array<double, kLanes> lanes{};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] = join(lanes[lane], term(i + lane));
  }
  for (std::size_t lane = 0; i < count; ++i, ++lane) lanes[lane] = join(lanes[lane], term(i));
  double whole = 0;
  for (double lane : lanes) whole = join(whole, lane);
  return whole;
}

}  // namespace paceline
