// Brings the traces of all ranks to one of them.
#pragma once

#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/observe/rank_trace.h"

namespace paceline::observe {

// Collective over `group`: rank 0 gets the traces of all, in rank order, the others none. Clocks of
// different hosts are compared by the fastest of a few exchanges (Cristian, 1989), with an error of
// at most half its round trip. It takes the log's spans, and leaves no spans of its own exchanges
// in it. THROWS Error as the communicator's operations do.
std::vector<RankTrace> gather_traces(Communicator& group, TraceLog& log);

}  // namespace paceline::observe
