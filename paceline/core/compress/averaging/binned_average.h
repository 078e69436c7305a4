// AdaComp: each bin sends the elements that an equal next gradient would make its largest, so the
// number of elements sent follows from the gradients. With acc = gradient + residual, element i is
// sent if |acc_i + gradient_i| >= the largest |acc| of its bin. All are sent as +-scale, the mean
// of the bins' largest magnitudes, and the loss is fed back. The ranks first exchange the lengths
// of their messages, so that no gathered message is padded beyond the longest.
#pragma once

#include <memory>

#include "paceline/core/compress/averaging/averaging.h"

namespace paceline::compress {

// THROWS misuse: a bin of 0 elements, or of more than kLongestBin.
std::unique_ptr<Averaging> binned_average(const Part& part, std::size_t bin);

}  // namespace paceline::compress
