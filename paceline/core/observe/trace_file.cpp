#include "paceline/core/observe/trace_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include <nlohmann/json.hpp>

#include "paceline/core/observe/output_file.h"
#include "paceline/core/observe/protobuf.h"

namespace paceline::observe {
namespace {

// Field numbers of trace.proto, trace_packet.proto, track_descriptor.proto,
// process_descriptor.proto, track_event.proto.
constexpr int kPacket = 1;
constexpr int kTimestamp = 8, kSequence = 10, kTrackEvent = 11, kTrackDescriptor = 60;
constexpr int kUuid = 1, kName = 2, kProcess = 3, kParent = 5, kPid = 1, kProcessName = 6;
constexpr int kType = 9, kTrackUuid = 11, kCategories = 22, kEventName = 23;
constexpr std::uint64_t kBegin = 1, kEnd = 2;  // types

struct Edge {
  std::int64_t time;
  std::uint64_t track;
  const TraceSpan* span;
  bool begins;
};

class Writer {
 public:
  std::uint64_t track(ProtobufMessage descriptor) {
    packet(kTrackDescriptor, descriptor.integer(kUuid, ++uuid_), 0);
    return uuid_;
  }
  void event(const Edge& edge) {
    ProtobufMessage event;
    event.integer(kType, edge.begins ? kBegin : kEnd).integer(kTrackUuid, edge.track);
    if (edge.begins) {
      event.text(kCategories, kTraceLanes[static_cast<std::size_t>(edge.span->lane)])
          .text(kEventName, edge.span->name);
    }
    packet(kTrackEvent, event, static_cast<std::uint64_t>(edge.time));
  }
  const std::string& bytes() const { return file_.bytes(); }

 private:
  void packet(int field, const ProtobufMessage& content, std::uint64_t timestamp) {
    file_.message(kPacket, ProtobufMessage()
                               .integer(kTimestamp, timestamp)
                               .integer(kSequence, 1)
                               .message(field, content));
  }

  ProtobufMessage file_;
  std::uint64_t uuid_ = 0;
};

// Assigns spans to rows in which no two overlap; there are as many rows as spans in flight at a
// time.
std::vector<int> places_side_by_side(const std::vector<TraceSpan>& spans) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (spans[i].lane == TraceLane::operations) order.push_back(i);
  }
  std::ranges::sort(order, {}, [&](std::size_t i) { return spans[i].begin_ns; });
  std::vector<int> places(spans.size(), 0);
  std::vector<std::int64_t> busy_until;
  for (const std::size_t i : order) {
    auto place = std::ranges::find_if(busy_until,
                                      [&](std::int64_t end) { return end <= spans[i].begin_ns; });
    if (place == busy_until.end()) place = busy_until.insert(place, 0);
    *place = spans[i].end_ns;
    places[i] = static_cast<int>(place - busy_until.begin());
  }
  return places;
}

// At equal times ends come first, and of two spans that begin together the longer one, so that
// slices nest.
void sort(std::vector<Edge>& edges) {
  std::ranges::stable_sort(edges, {}, [](const Edge& edge) {
    const std::int64_t length = edge.span->end_ns - edge.span->begin_ns;
    return std::tuple(edge.time, edge.begins && length > 0, edge.begins ? -length : length);
  });
}

void write(Writer& writer, const RankTrace& trace, std::int64_t origin) {
  const auto pid = static_cast<std::uint64_t>(trace.rank) + 1;  // 0 is the idle process
  const std::uint64_t process = writer.track(ProtobufMessage().message(
      kProcess, ProtobufMessage().integer(kPid, pid).text(kProcessName, title_of(trace))));
  const auto places = places_side_by_side(trace.spans);
  std::map<std::pair<TraceLane, int>, std::uint64_t> tracks;
  std::vector<Edge> edges;
  for (std::size_t i = 0; i < trace.spans.size(); ++i) {
    const TraceSpan& span = trace.spans[i];
    auto [track, fresh] = tracks.try_emplace({span.lane, places[i]}, 0);
    if (fresh) {
      const auto lane = static_cast<std::size_t>(span.lane);
      track->second =
          writer.track(ProtobufMessage().text(kName, kTraceLanes[lane]).integer(kParent, process));
    }
    const std::int64_t zero = trace.clock_ns + origin;
    edges.push_back({span.begin_ns - zero, track->second, &span, true});
    edges.push_back({span.end_ns - zero, track->second, &span, false});
  }
  sort(edges);
  for (const Edge& edge : edges) writer.event(edge);
}

}  // namespace

void write_trace(const std::string& path, std::span<const RankTrace> ranks) {
  OutputFile("trace file", path)
      .write(path.ends_with(".pftrace") ? perfetto_trace(ranks) : chrome_trace(ranks));
}

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

std::string perfetto_trace(std::span<const RankTrace> ranks) {
  Writer writer;
  for (const RankTrace& trace : ranks) write(writer, trace, origin_of(ranks));
  return writer.bytes();
}

}  // namespace paceline::observe
