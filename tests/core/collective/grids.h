// Shared parts of the tests of algorithms on grids.
#pragma once

#include <functional>
#include <numeric>
#include <vector>

#include "paceline/core/collective/price/cost.h"
#include "tests/core/collective/programs.h"
#include "tests/support/sanitized.h"

namespace paceline::collective::testing {

inline int ranks_of(const std::vector<int>& dimensions) {
  return std::accumulate(dimensions.begin(), dimensions.end(), 1, std::multiplies<int>());
}

// All ways to write `ranks` as an ordered product of numbers above 1.
inline std::vector<std::vector<int>> factorisations(int ranks) {
  if (ranks == 1) return {{}};
  std::vector<std::vector<int>> all;
  for (int first = 2; first <= ranks; ++first) {
    if (ranks % first != 0) continue;
    for (auto rest : factorisations(ranks / first)) {
      rest.insert(rest.begin(), first);
      all.push_back(rest);
    }
  }
  return all;
}

inline Shape on_grid_of(const std::vector<int>& dimensions) {
  return {.ranks = ranks_of(dimensions), .dimensions = dimensions};
}

// Along each dimension a rank sends two messages to each other rank of that line, each with the
// share that is left there.
inline double seconds_on_grid(const std::vector<int>& dimensions, double bytes,
                              const topology::Prices& prices) {
  double seconds = 0, held = bytes;
  for (const int size : dimensions) {
    held /= size;
    seconds += (size - 1) * (2 * (prices.alpha + held * prices.beta) + held * prices.gamma);
  }
  return seconds;
}

inline double price_on_grid(const Algorithm& algorithm, const Shape& shape, std::size_t bytes,
                            const topology::Prices& prices) {
  return cost(algorithm, shape, Partition::even(bytes, shape.ranks), 1, prices);
}

}  // namespace paceline::collective::testing
