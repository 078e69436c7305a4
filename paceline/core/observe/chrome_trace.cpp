#include "paceline/core/observe/chrome_trace.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace paceline::observe {

using Json = nlohmann::ordered_json;

std::string chrome_trace(std::span<const RankTrace> ranks) {
  const std::int64_t origin = origin_of(ranks);
  std::string events;
  const auto add = [&](const Json& event) {
    events += (events.empty() ? "\n" : ",\n") +
              event.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  std::uint64_t id = 0;
  for (const RankTrace& trace : ranks) {
    add({{"name", "process_name"},
         {"ph", "M"},
         {"pid", trace.rank},
         {"args", {{"name", title_of(trace)}}}});
    for (std::size_t lane = 0; lane < kTraceLanes.size(); ++lane) {
      add({{"name", "thread_name"},
           {"ph", "M"},
           {"pid", trace.rank},
           {"tid", lane},
           {"args", {{"name", kTraceLanes[lane]}}}});
    }
    for (const TraceSpan& span : trace.spans) {
      const auto lane = static_cast<std::size_t>(span.lane);
      const double begin = static_cast<double>(span.begin_ns - trace.clock_ns - origin) / 1e3,
                   length = static_cast<double>(span.end_ns - span.begin_ns) / 1e3;
      Json event = {{"name", span.name},
                    {"cat", kTraceLanes[lane]},
                    {"pid", trace.rank},
                    {"tid", lane},
                    {"ts", begin}};
      if (span.lane != TraceLane::operations) {
        event.update({{"ph", "X"}, {"dur", length}});
        add(event);
        continue;
      }
      event.update({{"ph", "b"}, {"id", ++id}});
      add(event);
      event["ph"] = "e";
      event["ts"] = begin + length;
      add(event);
    }
  }
  return fmt::format("{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[{}\n]}}\n", events);
}

}  // namespace paceline::observe
