// The yardstick for all_reduce in shared memory (../shared/peers, "exchange"): each rank adds its
// own part of all buffers up and stores the sum into all of them. There is
// no protocol and no copy, only the memory traffic that the result needs.
#pragma once

#include <cstddef>
#include <memory>

#include "paceline/app/measure/contestant.h"
#include "paceline/app/measure/start_line.h"

namespace paceline::measure {

constexpr int kMostYardstickRanks = 8;

// The bytes of common memory that the yardstick needs.
std::size_t yardstick_bytes(std::size_t count, int ranks);

// Sums `count` floats. It ends at the line, when all parts are done. REQUIRES: 2 to 8 ranks; line
// and memory outlive it.
std::unique_ptr<Contestant> make_yardstick(Communicator& group, const CommonMemory& memory,
                                           StartLine& line, std::size_t count);

}  // namespace paceline::measure
