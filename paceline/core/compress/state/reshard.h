// Converts the state of averagings to another number of ranks, after a restart on fewer or more.
#pragma once

#include <span>
#include <vector>

#include "paceline/core/compress/averaging/averaging.h"

namespace paceline::compress {

// Returns the state of `rank` of `ranks`, made from the states of all former ranks. The mean over
// the ranks stays (own): results are means, so if 4 ranks took the sum of 8 ranks' residuals, each
// would count twice. Chunks are cut again, never scaled.
std::vector<float> resharded(StateView::Sharing sharing, std::span<const std::vector<float>> former,
                             int ranks, int rank);

// The same for whole states as bytes (saved_state.h): those of all former ranks, in rank order.
// Fails (io) if the former ranks kept different things, or if the bytes of one are damaged.
Result<std::vector<std::byte>> resharded(std::span<const std::vector<std::byte>> former, int ranks,
                                         int rank);

}  // namespace paceline::compress
