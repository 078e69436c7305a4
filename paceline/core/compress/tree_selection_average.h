// gTop-k (Shi et al. 2019): the largest elements of the sum, up a binomial tree and back.
//
// Each rank starts with its k largest elements; a rank that receives adds those of its child to its
// own, and keeps the k largest of the union; rank 0 broadcasts what is left. ceil(lg ranks) rounds
// of 8 k bytes, then a broadcast of 8 k bytes. Any number of ranks.
#pragma once

#include <memory>

#include "paceline/core/compress/averaging.h"

namespace paceline::compress {

struct TreeSelectionOptions {
  double ratio = 0.01;  // of the elements, in (0, 1]
  // What a rank drops when it merges stays in its own residual, so nothing is lost. The paper's
  // program instead clears a residual where the final set has its element, and so loses what was
  // dropped on the way there.
  bool lossless = true;
};

std::unique_ptr<Averaging> tree_selection_average(const Part& part,
                                                  const TreeSelectionOptions& options = {});

}  // namespace paceline::compress
