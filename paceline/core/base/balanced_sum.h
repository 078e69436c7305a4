// The summation tree that `reproducible` promises: balanced, over operands in order
// (docs/algorithms/README.md).
//
// Split at the largest power of two below the count, for 5: ((0+1)+(2+3))+4. Adding neighbours
// level by level, and letting an odd one out wait, gives the same tree, so the additions of a level
// do not depend on each other.
#pragma once

#include <bit>
#include <utility>
#include <vector>

namespace paceline {

// ceil(lg count): the levels of the tree. REQUIRES: count >= 1.
constexpr int tree_levels(int count) {
  return static_cast<int>(std::bit_width(static_cast<unsigned>(count) - 1u));
}

// The tree over `values` with a function (left, right) -> sum; the sum is the one value that stays.
// REQUIRES: values is not empty.
template <typename T, typename Add>
void sum_in_place(std::vector<T>& values, Add add) {
  while (values.size() > 1) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < values.size(); i += 2) {
      values[kept++] = i + 1 < values.size() ? add(values[i], values[i + 1]) : values[i];
    }
    values.resize(kept);
  }
}
template <typename T, typename Add>
T balanced_sum(std::vector<T> values, Add add) {
  sum_in_place(values, add);
  return values.front();
}

}  // namespace paceline
