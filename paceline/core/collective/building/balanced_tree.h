// The summation tree that `reproducible` promises: balanced, over ranks in order
// (docs/algorithms/README.md).
//
// Split at the largest power of two below the count, for 5: ((0+1)+(2+3))+4. Adding neighbours
// level by level, and letting an odd one out wait, gives the same tree, so a level is a round of
// steps that do not depend on each other.
#pragma once

#include <bit>
#include <utility>
#include <vector>

#include "paceline/core/collective/program/program.h"

namespace paceline::collective {

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

// Rounds that sum `leaves` (one for each rank, in rank order) into `target` and complete it.
// Partial sums overwrite leaves that lie in scratch; the others are only read. One leaf alone is
// copied. REQUIRES: at least one leaf, and at most one that does not lie in scratch.
std::vector<Round> balanced_reduction(std::vector<Slot> leaves, Slot target);

// The first half of every `direct` reduction: each rank takes its own chunk (rank r: chunk r of
// shape.ranks) from all others and sums it up into `target`. Scratch place `peer` takes what `peer`
// sends; with one rank none is used.
//
// 4 ranks, as rank 1 sees it; the others do the same with their own chunk:
//     round 0   0 --chunk 1--> 1 <--chunk 1-- 2, 3    (1 sends chunks 0, 2, 3 to their owners)
//     round 1   a = x0 + x1,  b = x2 + x3
//     round 2   target = a + b
Program sum_of_own_chunk(const Shape& shape, Slot target);

// A reduction in one go: the root takes the whole buffer from all others and sums them up into its
// output, one chunk. Scratch place `rank` takes what `rank` sends; with one rank none is used.
//
// 4 ranks, root 0:
//     round 0    1, 2, 3 --> 0
//     round 1    a = x0 + x1,  b = x2 + x3
//     round 2    output = a + b
Program sum_at_root(const Shape& shape);

}  // namespace paceline::collective
