// Writes the trace of a run to a file.
#pragma once

#include <span>
#include <string>

#include "paceline/core/observe/rank_trace.h"

namespace paceline::observe {

// It takes Perfetto's own format if the name ends in .pftrace, else Chrome's JSON. THROWS Error
// (io).
void write_trace(const std::string& path, std::span<const RankTrace> ranks);

// A trace in Chrome's JSON (Trace Event Format) has a process for each rank, a thread for each
// lane, and operations as asynchronous events, since several are in flight. https://ui.perfetto.dev
// and chrome://tracing open it.
std::string chrome_trace(std::span<const RankTrace> ranks);

// A trace in Perfetto's own format (protos/perfetto/trace of https://github.com/google/perfetto)
// has a process for each rank, a track for each lane, and as many tracks of operations as are in
// flight at a time. It takes about half the bytes of the JSON.
std::string perfetto_trace(std::span<const RankTrace> ranks);

}  // namespace paceline::observe
