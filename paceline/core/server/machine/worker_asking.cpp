// How a worker finds out whom it waits for: it asks the ranges that owe it something.
#include <fmt/format.h>

#include <algorithm>

#include "paceline/core/server/machine/worker_machine.h"

namespace paceline::server {
namespace {

// Names the thing that those have not done for whom a range waits.
std::string undone(const Packet& missing) {
  switch (static_cast<Lack>(missing.sequence)) {
    case Lack::nothing: break;
    case Lack::first_values: return "given the first values";
    case Lack::push: return fmt::format("pushed at clock {}", missing.clock);
    case Lack::quiesce: return "quiesced";
    case Lack::entries: return "kept the newest changes of its part";
  }
  return "answered";
}

}  // namespace

machine::Actions WorkerMachine::ask() {
  servers_.begin_question();
  for (std::size_t range = 0; range < sides_.size(); ++range) {
    const Side& side = sides_[range];
    const bool needs_own = !shape_.pacing.worker_updates;
    if (servers_.note_asked(range, is_owed(side)))
      send(range, {.kind = PacketKind::ask,
                   .flags = servers_.question(),
                   .sequence = needs_own ? side.pushes : 0,
                   .clock = is_quiescing_ ? kAnyClock : side.awaits_row.value_or(kAnyClock),
                   .count = side.was_assigned ? 1 + side.answered : 0});
  }
  return servers_.take();
}

bool WorkerMachine::is_owed(const Side& side) const {
  return side.assigning || side.awaits_row || side.is_leaving || side.pushes > side.answered ||
         side.joining != Joining::no;
}

coordination::Awaited WorkerMachine::awaited() const {
  coordination::Awaited awaited;
  for (std::size_t range = 0; range < sides_.size(); ++range) {
    // If rounds go by the first range, others wait until this worker tells them of one.
    const bool is_untold = shape_.pacing.rounds && range > 0 && sides_.front().awaits_row;
    if (is_owed(sides_[range]) && !(is_untold && servers_.waits_for_nobody(range)))
      servers_.tell_awaited(range, awaited);
  }
  return awaited;
}

void WorkerMachine::note_missing(std::size_t range, const Packet& packet) {
  servers_.note_missing(range, packet.flags, packet.members, undone(packet));
}

}  // namespace paceline::server
