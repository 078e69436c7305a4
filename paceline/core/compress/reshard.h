// The state of averagings on another number of ranks, as after a restart on fewer or more.
#pragma once

#include "paceline/core/compress/averaging.h"

namespace paceline::compress {

// What `rank` of `ranks` has of a state, made of what each of the former ranks had. The mean over
// the ranks stays (own): results are means, so a sum of 8 ranks' residuals on 4 would count each
// twice. Chunks are cut anew, never scaled.
std::vector<float> resharded(StateView::Sharing sharing, std::span<const std::vector<float>> former,
                             int ranks, int rank);

}  // namespace paceline::compress
