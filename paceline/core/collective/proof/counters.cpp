#include "paceline/core/collective/proof/counters.h"

#include <algorithm>

#include "paceline/core/collective/program/cells.h"
#include "paceline/core/collective/proof/timeline.h"

namespace paceline::collective {
namespace {

long messages_in(const Round& round) {
  const std::vector<int> first = messages_of(round);
  long messages = 0;
  for (std::size_t i = 0; i < first.size(); ++i) messages += first[i] == static_cast<int>(i);
  return messages;
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
    for (const Round& round : program.rounds) counters.messages += messages_in(round);
  }
  if (!programs.empty()) counters.chunks = std::ranges::max(sent_chunks(programs));
  return counters;
}

}  // namespace paceline::collective
