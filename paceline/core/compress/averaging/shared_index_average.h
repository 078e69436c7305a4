// Averages the same few elements on all ranks, by an all_reduce of their values: no indices travel
// (or once, from a leader), and the bytes do not grow with the number of ranks.
//
// random_k: all ranks draw the same elements. CLT-k (ScaleCom, Chen et al. 2020): rank step mod
// ranks broadcasts the indices of its largest elements. Bytes: 4 k in the all_reduce (and 4 k in
// the broadcast), k of count_of.
#pragma once

#include <memory>

#include "paceline/core/compress/averaging/averaging.h"

namespace paceline::compress {

struct SharedIndexOptions {
  double ratio = 0.01;   // of the elements, in (0, 1]
  bool leader = false;   // CLT-k instead of random_k
  bool feedback = true;  // without: results are multiplied by N / k and unbiased (random_k)
  // The share of the residual's low-pass filter: residual = (1 - share) residual + share (acc -
  // sent). Below 1, the conserved quantity is sum of results + mean(residual) / share.
  float share = 1;
};

std::unique_ptr<Averaging> shared_index_average(const AveragedTensor& part,
                                                const SharedIndexOptions& options = {});

}  // namespace paceline::compress
