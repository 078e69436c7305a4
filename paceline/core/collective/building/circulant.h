// The circulant graph of reduce_scatter and all_gather: ceil(lg n) rounds for any rank count.
#pragma once

#include "paceline/core/collective/program/program.h"

namespace paceline::collective {

// Each rank ends with the sum of its own chunk in output(rank), and leaves partial sums in its
// output on the way. The rounds halve what a rank still has to do with: with d = ceil(n/2),
// ceil(n/4), .., 1 it sends what it has of the chunks d and more ranks ahead to the rank d ahead.
//
// 5 ranks, as rank 0 sees it; the others do the same, turned round:
//     round 0   0 --chunks 3, 4--> 3     0 <--chunks 0, 1-- 2     d = 3
//     round 1   0 --chunk 2--> 2         0 <--chunk 0-- 3         d = 2
//     round 2   0 --chunk 1--> 1         0 <--chunk 0-- 4         d = 1
Program circulant_reduce_scatter(const Shape& shape);

}  // namespace paceline::collective
