#include "paceline/core/observe/gather_trace.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <limits>
#include <utility>

#include "paceline/core/base/processors.h"

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
