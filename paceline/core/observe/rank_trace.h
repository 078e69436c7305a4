// What one rank traced, as it travels to the rank that renders the trace of all.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/base/trace_log.h"

namespace paceline::observe {

struct RankTrace {
  int rank = 0;
  std::string host;
  std::int64_t clock_ns = 0;  // this rank's steady clock less that of the rank that renders
  std::vector<TraceSpan> spans;
  std::size_t dropped = 0;
};

inline constexpr std::array<std::string_view, 3> kTraceLanes = {"training", "waiting",
                                                                "operations"};  // by TraceLane

std::string title_of(const RankTrace& trace);  // "rank 3 (host)"
// The first moment of all, on the renderer's clock, so that times can stay small.
std::int64_t origin_of(std::span<const RankTrace> ranks);

// For the way between ranks. THROWS Error (io) for bytes that encode() did not make.
std::string encode(const RankTrace& trace);
RankTrace decode_rank_trace(std::string_view bytes);

}  // namespace paceline::observe
