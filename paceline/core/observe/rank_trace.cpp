#include "paceline/core/observe/rank_trace.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "paceline/core/base/processors.h"
#include "paceline/core/base/result.h"

namespace paceline::observe {
namespace {

constexpr int kExchanges = 8;
// The limit allows half a KiB for each span that a log keeps, because a peer's length decides how
// much memory this rank takes.
constexpr std::int64_t kLongestTrace = static_cast<std::int64_t>(TraceLog::kMostSpans) * 512;

RankTrace trace_of_this_rank(int rank, TraceLog& log) {
  return {rank, host_name(), 0, log.take(), log.dropped()};
}

// Returns the peer's clock minus this rank's.
std::int64_t compare_clocks(Communicator& group, int peer) {
  std::int64_t best = std::numeric_limits<std::int64_t>::max(), difference = 0;
  for (int i = 0; i < kExchanges; ++i) {
    std::array<std::int64_t, 1> theirs{};
    const std::int64_t begin = TraceLog::now();
    group.send(buffer_of(theirs), peer).wait();
    group.recv(buffer_of(theirs), peer).wait();
    const std::int64_t trip = TraceLog::now() - begin;
    if (trip >= best) continue;
    best = trip;
    difference = theirs[0] - (begin + trip / 2);
  }
  return difference;
}

void show_clock(Communicator& group, int peer) {
  for (int i = 0; i < kExchanges; ++i) {
    std::array<std::int64_t, 1> now{};
    group.recv(buffer_of(now), peer).wait();
    now[0] = TraceLog::now();
    group.send(buffer_of(now), peer).wait();
  }
}

}  // namespace

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

std::vector<RankTrace> gather_traces(Communicator& group, TraceLog& log) {
  group.check_may_wait("gather_traces");
  RankTrace own = trace_of_this_rank(group.rank(), log);
  std::vector<RankTrace> all;
  if (group.rank() != 0) {
    show_clock(group, 0);
    std::string bytes = encode(own);
    std::array<std::int64_t, 1> length = {static_cast<std::int64_t>(bytes.size())};
    group.send(buffer_of(length), 0).wait();
    group
        .send(
            ConstBuffer{reinterpret_cast<const std::byte*>(bytes.data()), bytes.size(), Dtype::u8},
            0)
        .wait();
  } else {
    all.push_back(std::move(own));
    for (int peer = 1; peer < group.size(); ++peer) {
      const std::int64_t clock = compare_clocks(group, peer);
      std::array<std::int64_t, 1> length{};
      group.recv(buffer_of(length), peer).wait();
      if (length[0] < 0 || length[0] > kLongestTrace)
        throw Error({Fault::io,
                     fmt::format("rank {} offers a trace of {} bytes, at most {} are taken: trace "
                                 "fewer steps",
                                 peer, length[0], kLongestTrace),
                     {peer}});
      std::string bytes(static_cast<std::size_t>(length[0]), '\0');
      group.recv(Buffer{reinterpret_cast<std::byte*>(bytes.data()), bytes.size(), Dtype::u8}, peer)
          .wait();
      all.push_back(decode_rank_trace(bytes));
      all.back().clock_ns = clock;
    }
  }
  log.take();
  return all;
}

}  // namespace paceline::observe
