// The trace of one rank, in the form in which it travels to the rank that renders all, and the way
// there.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/base/trace_log.h"
#include "paceline/core/collective/group/communicator.h"

namespace paceline::observe {

struct RankTrace {
  int rank = 0;
  std::string host;
  std::int64_t clock_ns = 0;  // this rank's steady clock minus the renderer's
  std::vector<TraceSpan> spans;
  std::size_t dropped = 0;
};

inline constexpr std::array<std::string_view, 4> kTraceLanes = {"training", "waiting", "operations",
                                                                "stages"};  // by TraceLane

std::string title_of(const RankTrace& trace);  // "rank 3 (host)"
// The earliest moment of all spans, on the renderer's clock; times relative to it stay small.
std::int64_t origin_of(std::span<const RankTrace> ranks);

// They convert a trace to bytes and back, to send it between ranks. THROWS Error (io): encode() did
// not make these bytes.
std::string encode(const RankTrace& trace);
RankTrace decode_rank_trace(std::string_view bytes);

// Collective over `group`: rank 0 gets the traces of all, in rank order, the others none. Clocks of
// different hosts are compared by the fastest of a few exchanges (Cristian, 1989), with an error of
// at most half its round trip. It takes the log's spans, and leaves no spans of its own exchanges
// in it. THROWS Error as the communicator's operations do.
std::vector<RankTrace> gather_traces(Communicator& group, TraceLog& log);

}  // namespace paceline::observe
