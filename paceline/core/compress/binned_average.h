// AdaComp: each bin of elements sends those that the next gradient alike would make its largest, so
// how many are sent follows from the gradients. With acc = gradient + residual, element i is sent
// where |acc_i + gradient_i| >= the largest |acc| of its bin; all as +-scale, the mean of the bins'
// largest. What was lost is fed back. First the ranks tell each other how long their messages are,
// so that gathered ones are no longer than the longest.
#pragma once

#include <memory>

#include "paceline/core/compress/averaging.h"

namespace paceline::compress {

// THROWS misuse: a bin of 0 elements, or of more than kLongestBin.
std::unique_ptr<Averaging> binned_average(const Part& part, std::size_t bin);

}  // namespace paceline::compress
