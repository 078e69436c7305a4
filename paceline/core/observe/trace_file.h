// Writes the trace of a run to a file.
#pragma once

#include <span>
#include <string>

#include "paceline/core/observe/rank_trace.h"

namespace paceline::observe {

// It takes Perfetto's own format if the name ends in .pftrace, else Chrome's JSON. THROWS Error
// (io).
void write_trace(const std::string& path, std::span<const RankTrace> ranks);

}  // namespace paceline::observe
