// The summation tree that `reproducible` promises (base/reduce.h), over ranks in order, as
// rounds of programs (docs/algorithms/README.md).
#pragma once

#include <vector>

#include "paceline/core/base/reduce.h"
#include "paceline/core/collective/program/program.h"

namespace paceline::collective {

using paceline::balanced_sum;
using paceline::sum_in_place;
using paceline::tree_levels;

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
