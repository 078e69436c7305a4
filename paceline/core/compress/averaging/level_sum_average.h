// Computes the mean by a sum of integers: ranks agree on the largest magnitude of each bucket
// (all_reduce max), turn their values into levels of that scale, and add them up (all_reduce of
// integers).
//
// The sum is exact, so the mean has the same bits for every algorithm and order. Levels are so
// small that sums fit: at most floor(127 / ranks) in i8, floor(32767 / ranks) in i16.
//
// Bytes: 4 ceil(N / bucket) + N or 2 N. Error of the mean: E err^2 <= d M^2 / (4 top^2 ranks) for a
// bucket of d elements with maximum M over the ranks; a rank with much smaller gradients than the
// others is rounded more coarsely than it would be alone (docs/compression/int8.md).
#pragma once

#include <memory>

#include "paceline/core/compress/averaging/averaging.h"

namespace paceline::compress {

struct LevelSumOptions {
  int bits = 8;              // of the integers: 8 or 16
  std::size_t bucket = 512;  // elements that share a scale
  bool feedback = false;
};

// THROWS misuse: the sum over the part's ranks does not fit in `bits` bits.
std::unique_ptr<Averaging> level_sum_average(const Part& part, const LevelSumOptions& options = {});

}  // namespace paceline::compress
