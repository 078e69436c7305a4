// Random ways to cut a tensor into boxes.
#pragma once

#include <vector>

#include "paceline/core/base/seed.h"
#include "paceline/core/checkpoint/shape.h"

namespace paceline::checkpoint::testing {

// Cuts a box in two along a random side, and each part again, until chance ends it. The parts tile
// the box.
inline void cut_randomly(SeededNumbers& numbers, const Box& box, std::vector<Box>& parts) {
  const std::size_t side = numbers.below(box.shape.size());
  if (box.shape[side] < 2 || numbers.below(4) == 0) return parts.push_back(box);
  Box first = box, second = box;
  first.shape[side] = 1 + numbers.below(box.shape[side] - 1);
  second.offset[side] += first.shape[side];
  second.shape[side] -= first.shape[side];
  cut_randomly(numbers, first, parts);
  cut_randomly(numbers, second, parts);
}

}  // namespace paceline::checkpoint::testing
