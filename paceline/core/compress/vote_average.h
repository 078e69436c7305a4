// signSGD with majority vote (Bernstein et al. 2018): each element becomes +1 or -1, as most ranks
// have it; a tie is +1. The result is no mean but a direction, for a learning rate of its own.
//
// Bytes of payload that all ranks send: 2 ceil(N/8) (ranks - 1), which does not grow per rank.
#pragma once

#include <memory>

#include "paceline/core/compress/averaging.h"

namespace paceline::compress {

std::unique_ptr<Averaging> vote_average(const Part& part);

}  // namespace paceline::compress
