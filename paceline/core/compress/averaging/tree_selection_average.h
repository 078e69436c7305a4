// gTop-k (Shi et al. 2019) sends the largest elements of the sum up a binomial tree and back.
//
// Each rank starts with its k largest elements. A rank that receives adds its child's elements to
// its own and keeps the k largest of the union; rank 0 broadcasts the result. There are ceil(lg
// ranks) rounds of 8 k bytes, then a broadcast of 8 k bytes. Any number of ranks works.
#pragma once

#include <memory>

#include "paceline/core/compress/averaging/averaging.h"

namespace paceline::compress {

struct TreeSelectionOptions {
  double ratio = 0.01;  // of the elements, in (0, 1]
  // Elements that a rank drops when it merges stay in its own residual, so nothing is lost. The
  // paper's program instead clears a residual at every element of the final set, and so loses what
  // was dropped on the way.
  bool lossless = true;
};

std::unique_ptr<Averaging> tree_selection_average(const Part& part,
                                                  const TreeSelectionOptions& options = {});

}  // namespace paceline::compress
