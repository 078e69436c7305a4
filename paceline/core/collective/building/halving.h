// Recursive halving: reduce_scatter in lg n rounds for n = 2^m, by exchange with one rank a round.
#pragma once

#include "paceline/core/collective/program/program.h"

namespace paceline::collective {

// Whom a rank meets first. `nearest` sums by the balanced tree in rank order, but leaves chunk
// reversed_bits(rank) with each rank; `farthest` leaves chunk `rank` there and sums by another
// tree, which is the same for all chunks.
enum class Partners { nearest_first, farthest_first };

// In each round a rank and its partner share what they have in common: the one of lower rank goes
// on with the lower half of the chunks, the other one with the upper half. The sums lie in the
// output, which is left with partial sums.
//
// 4 ranks, nearest first, as rank 0 sees it:
//     round 0   0 --chunks 2, 3--> 1     0 <--chunks 0, 1-- 1
//     round 1   0 --chunk 1--> 2         0 <--chunk 0-- 2
//
// REQUIRES: shape.ranks is a power of two.
Program halving_reduce_scatter(const Shape& shape, Partners partners);

// The lowest lg(count) bits of `number` in reverse order. REQUIRES: count is a power of two.
int reversed_bits(int number, int count);

}  // namespace paceline::collective
