// The dense mean, turned into momentum SGD's direction, for tensors that are not worth compressing
// beside those of momentum_selection_average.h: plain SGD then serves both.
#pragma once

#include <memory>

#include "paceline/core/compress/averaging/averaging.h"

namespace paceline::compress {

// u = m u + mean; the result is u (Nesterov: mean + m u).
std::unique_ptr<Averaging> momentum_average(const Part& part, float momentum, bool nesterov);

}  // namespace paceline::compress
