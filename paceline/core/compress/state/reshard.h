// Converts the state of averagings to another number of ranks, after a restart on fewer or more.
#pragma once

#include "paceline/core/compress/averaging/averaging.h"

namespace paceline::compress {

// Returns the state of `rank` of `ranks`, made from the states of all former ranks. The mean over
// the ranks stays (own): results are means, so if 4 ranks took the sum of 8 ranks' residuals, each
// would count twice. Chunks are cut again, never scaled.
std::vector<float> resharded(StateView::Sharing sharing, std::span<const std::vector<float>> former,
                             int ranks, int rank);

}  // namespace paceline::compress
