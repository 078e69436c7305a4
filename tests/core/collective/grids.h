// What the tests of algorithms on grids share.
#pragma once

#include <functional>
#include <numeric>
#include <vector>

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

}  // namespace paceline::collective::testing
