#include "paceline/core/collective/counters.h"

#include <algorithm>

#include "paceline/core/collective/cells.h"
#include "paceline/core/collective/timeline.h"

namespace paceline::collective {
namespace {

// What a rank sends another in one round counts once.
long messages_of(const Round& round) {
  std::vector<int> peers;
  for (const Step& step : round) {
    if (is_send(step)) peers.push_back(step.peer);
  }
  std::ranges::sort(peers);
  return std::ranges::unique(peers).begin() - peers.begin();
}

}  // namespace

std::vector<long> sent_chunks(std::span<const Program> programs) {
  std::vector<long> sent;
  for (const Program& program : programs) {
    long of_rank = 0;
    for (const Round& round : program.rounds) of_rank += std::ranges::count_if(round, is_send);
    sent.push_back(of_rank);
  }
  return sent;
}

Counters count(std::span<const Program> programs, const Rendezvous& meeting) {
  Counters counters{.depth = timeline(programs, meeting, /*local_round=*/0).end};
  for (const Program& program : programs) {
    for (const Round& round : program.rounds) counters.messages += messages_of(round);
  }
  if (!programs.empty()) counters.chunks = std::ranges::max(sent_chunks(programs));
  return counters;
}

}  // namespace paceline::collective
