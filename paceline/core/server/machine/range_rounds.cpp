// How the rounds of a consensus end: the first range decides, and the others follow it.
#include <algorithm>
#include <utility>

#include "paceline/core/server/machine/range_machine.h"

namespace paceline::server {

// Readers of the first range tell the others of its rounds: each row of it lists the last ones. A
// member that is lost may have heard of a round alone; another one hears of it later.
void RangeMachine::hear_of(const std::vector<Round>& rounds) {
  if (!shape_->pacing.rounds || range_ == 0) return;
  const std::uint64_t last = value().rounds().number();
  for (const Round& round : rounds)
    if (round.number > last && round.number <= last + value().rounds().most_last_rounds())
      told_.try_emplace(round.number, round.workers);
}

std::vector<Round> RangeMachine::rounds_to_tell() const {
  if (!shape_->pacing.rounds || range_ > 0) return {};
  const auto& last = value().rounds().last_rounds();
  return {last.begin(), last.end()};
}

// Those who are new in the next round, once it can end. A worker contributes to all ranges before it
// takes part in another round, so it has not contributed twice. Where one has left meanwhile, a range
// that follows may have none of its contribution, and goes on without it.
std::optional<std::vector<int>> RangeMachine::next_round() const {
  const coordination::PartialBarrier& barrier = value().rounds().barrier();
  if (range_ == 0) {
    if (!barrier.can_pass()) return {};
    return barrier.arrived();
  }
  const auto told = told_.find(value().rounds().number() + 1);
  if (told == told_.end()) return {};
  std::vector<int> workers;
  for (const int worker : told->second) {
    if (state().has_left(worker)) continue;
    if (!state().has(worker) || !barrier.has_arrived(worker)) return {};
    workers.push_back(worker);
  }
  return workers;
}

void RangeMachine::close_rounds() {
  if (!shape_->pacing.rounds) return;
  while (!failure_) {
    const auto workers = next_round();
    if (!workers) break;
    RangeEntry entry{.kind = EntryKind::round};
    for (const int worker : *workers) entry.pushes.push_back({.worker = worker});
    enter(std::move(entry));
  }
  told_.erase(told_.begin(), told_.upper_bound(value().rounds().number()));
}

// All it has pushed has come, and its last contribution is in no round yet.
bool RangeMachine::lacks_round(int from, const Packet& question) const {
  return shape_->pacing.rounds && state().has_values() && !senders_.at(from).quiet &&
         senders_.at(from).taken >= question.sequence && value().own(from) < question.sequence;
}

// Nobody is to blame here for a round that this range has not heard of.
Packet RangeMachine::missing_for_round(int from) const {
  const coordination::PartialBarrier& barrier = value().rounds().barrier();
  std::set<int> awaited;
  if (range_ == 0) {
    const std::vector<int> those = barrier.awaited();
    awaited.insert(those.begin(), those.end());
  } else if (const auto told = told_.find(value().rounds().number() + 1); told != told_.end()) {
    for (const int worker : told->second)
      if (state().has(worker) && !barrier.has_arrived(worker)) awaited.insert(worker);
  }
  Packet packet = lacking(from, Lack::push, [&](int member) { return awaited.contains(member); });
  packet.clock = value().clock();
  for (const int member : packet.members)
    packet.clock = std::min(packet.clock, value().clock_of(member));
  return packet;
}

}  // namespace paceline::server
