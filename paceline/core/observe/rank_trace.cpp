#include "paceline/core/observe/rank_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include <nlohmann/json.hpp>

#include "paceline/core/base/result.h"

namespace paceline::observe {

using Json = nlohmann::ordered_json;

std::string title_of(const RankTrace& trace) {
  const std::string lost =
      trace.dropped == 0 ? "" : fmt::format(", {} spans dropped", trace.dropped);
  return fmt::format("rank {} ({}{})", trace.rank, trace.host, lost);
}

std::int64_t origin_of(std::span<const RankTrace> ranks) {
  std::int64_t origin = std::numeric_limits<std::int64_t>::max();
  for (const RankTrace& trace : ranks) {
    for (const TraceSpan& span : trace.spans)
      origin = std::min(origin, span.begin_ns - trace.clock_ns);
  }
  return origin;
}

std::string encode(const RankTrace& trace) {
  Json spans = Json::array();
  for (const TraceSpan& span : trace.spans) {
    spans.push_back({static_cast<int>(span.lane), span.name, span.begin_ns, span.end_ns});
  }
  const Json json = {{"rank", trace.rank},
                     {"host", trace.host},
                     {"clock_ns", trace.clock_ns},
                     {"dropped", trace.dropped},
                     {"spans", spans}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

RankTrace decode_rank_trace(std::string_view bytes) {
  try {
    const Json json = Json::parse(bytes);
    RankTrace trace{json.at("rank"), json.at("host"), json.at("clock_ns"), {}, json.at("dropped")};
    for (const Json& span : json.at("spans")) {
      const int lane = span.at(0);
      if (lane < 0 || lane >= static_cast<int>(kTraceLanes.size()))
        throw Error({Fault::io, "a trace with an unknown lane", {}});
      trace.spans.push_back({static_cast<TraceLane>(lane), span.at(1), span.at(2), span.at(3)});
    }
    return trace;
  } catch (const nlohmann::json::exception& error) {
    throw Error({Fault::io, fmt::format("a malformed trace of a rank: {}", error.what()), {}});
  }
}

}  // namespace paceline::observe
