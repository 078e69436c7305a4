// A trace in Perfetto's own format (protos/perfetto/trace of https://github.com/google/perfetto)
// has a process for each rank, a track for each lane, and as many tracks of operations as are in
// flight at a time. It takes about half the bytes of the JSON.
#pragma once

#include <span>
#include <string>

#include "paceline/core/observe/rank_trace.h"

namespace paceline::observe {

std::string perfetto_trace(std::span<const RankTrace> ranks);

}  // namespace paceline::observe
