// signSGD with majority vote (Bernstein et al. 2018): each element becomes +1 or -1, by the
// majority of the ranks; a tie is +1. The result is not a mean but a direction, with a learning
// rate of its own.
//
// All ranks together send 2 ceil(N/8) (ranks - 1) bytes of payload, so a rank's share does not grow
// with the number of ranks.
#pragma once

#include <memory>

#include "paceline/core/compress/averaging/averaging.h"

namespace paceline::compress {

std::unique_ptr<Averaging> vote_average(const Part& part);

}  // namespace paceline::compress
