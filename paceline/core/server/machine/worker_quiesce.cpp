// How a worker is quiet until all are, and what rows tell beside their values.
#include <algorithm>

#include "paceline/core/base/check.h"
#include "paceline/core/server/machine/worker_machine.h"

namespace paceline::server {

using machine::Actions;

Actions WorkerMachine::quiesce() {
  PACELINE_CHECK(is_ready() && is_assigned() && !is_pulling_,
                 "table '{}' is quiesced before its first values, or while it is pulled",
                 shape_.spec.name);
  is_pulling_ = is_quiescing_ = true;
  ++pull_;
  rows_missing_ = sides_.size();
  state_.steps = 0;
  state_.slots.assign(shape_.slots(), std::vector<std::byte>(values_.size()));
  for (std::size_t range = 0; range < sides_.size(); ++range) {
    sides_[range].awaits_row = kAnyClock;
    ask(range);
  }
  return servers_.take();
}

// All pushes are in these values, and all ranges have come to the same clock.
void WorkerMachine::became_quiet(std::size_t range, const Packet& packet) {
  Side& side = sides_[range];
  const std::size_t bytes = shape_.ranges[range].elements * shape_.element_bytes();
  if (!side.awaits_row || packet.flags != pull_ ||
      packet.elements.size() != bytes * (1 + state_.slots.size()))
    return;
  side.awaits_row.reset();
  side.row_clock = packet.clock;
  side.differences.clear();
  note(range, packet.facts);
  Bytes elements = packet.elements;
  shape_.scatter(range, elements.first(bytes), values_);
  for (auto& slot : state_.slots) {
    elements = elements.subspan(bytes);
    shape_.scatter(range, elements.first(bytes), slot);
  }
  state_.steps = std::max(state_.steps, static_cast<std::int64_t>(packet.sequence));
  clock_ = std::max(clock_, packet.clock);
  side.awake = pull_;
  send(range, {.kind = PacketKind::awake, .flags = pull_});
  if (--rows_missing_ > 0) return;
  is_pulling_ = is_quiescing_ = has_pushed_ = false;
  may_push_ = true;
}

void WorkerMachine::note(std::size_t range, const RowFacts& facts) {
  sides_[range].row_version = facts.version;
  if (range > 0) return;
  if (facts.applied > facts_.applied) {
    // A row with several new updates tells their staleness as a sum.
    const std::uint64_t updates = facts.applied - facts_.applied;
    const std::uint64_t missed = facts.staleness - facts_.staleness, more = missed % updates;
    staleness_[missed / updates] += updates - more;
    if (more > 0) staleness_[missed / updates + 1] += more;
  }
  facts_ = facts;
}

}  // namespace paceline::server
