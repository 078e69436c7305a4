// A trace in Chrome's JSON (Trace Event Format) has a process for each rank, a thread for each
// lane, and operations as asynchronous events, since several are in flight. https://ui.perfetto.dev
// and chrome://tracing open it.
#pragma once

#include <span>
#include <string>

#include "paceline/core/observe/rank_trace.h"

namespace paceline::observe {

std::string chrome_trace(std::span<const RankTrace> ranks);

}  // namespace paceline::observe
