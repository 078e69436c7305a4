// Ranks as a grid of any number of dimensions (Shape::dimensions), and the all_reduce on it that
// all of its algorithms share.
#pragma once

#include <vector>

#include "paceline/core/collective/program/program.h"

namespace paceline::collective {

// Along the first dimension the ranks of each line sum up and share out the buffer, along the
// second one the part that each then has, and so on; then all that comes back the same way:
//
//   3 x 2 ranks, 6 chunks                         rank 0 (of line 0 1 2, and of line 0 3) ends with
//     reduce_scatter in 0 1 2 and in 3 4 5        chunks 0 1 of its line
//     reduce_scatter in 0 3, in 1 4 and in 2 5    chunk 0 of all
//     all_gather in 0 3, in 1 4 and in 2 5        chunks 0 1 of all
//     all_gather in 0 1 2 and in 3 4 5            everything
//
// `dimensions` as Shape::dimensions, those of size 1 do not matter; `rank` of their product. One
// chunk for each rank. The two algorithms are of these operations, for any rank count.
// Bytes over all ranks: 2(n-1) times the buffer, whatever the dimensions, when the two send no more
// than they must (docs/algorithms/hierarchical.md).
Program all_reduce_on_grid(std::vector<int> dimensions, int rank, const Algorithm& reduce_scatter,
                           const Algorithm& all_gather);

// The costs follow from the closed forms of the two.
Counters counters_on_grid(const std::vector<int>& dimensions, const Algorithm& reduce_scatter,
                          const Algorithm& all_gather);

}  // namespace paceline::collective
