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
  ++question_;
  for (std::size_t range = 0; range < sides_.size(); ++range) {
    Side& side = sides_[range];
    side.missing.reset();
    side.is_asked = is_owed(side);
    const bool needs_own = !shape_.pacing.worker_updates;
    if (side.is_asked)
      send(range, {.kind = PacketKind::ask,
                   .flags = question_,
                   .sequence = needs_own ? side.pushes : 0,
                   .clock = is_quiescing_ ? kAnyClock : side.awaits_row.value_or(kAnyClock),
                   .count = side.was_assigned ? 1 + side.answered : 0});
  }
  return take();
}

bool WorkerMachine::is_owed(const Side& side) const {
  return side.assigning || side.awaits_row || side.is_leaving || side.pushes > side.answered ||
         side.joining != Joining::no;
}

bool WorkerMachine::has_heard() const {
  return std::ranges::none_of(
      sides_, [](const Side& side) { return side.is_asked && !side.missing.has_value(); });
}

coordination::Awaited WorkerMachine::awaited() const {
  coordination::Awaited awaited;
  for (std::size_t range = 0; range < sides_.size(); ++range) {
    const Side& side = sides_[range];
    if (!side.is_asked || !is_owed(side)) continue;
    // If rounds go by the first range, others wait until this worker tells them of one.
    const bool is_untold = shape_.pacing.rounds && range > 0 && sides_.front().awaits_row;
    if (is_untold && side.missing && side.missing->members.empty()) continue;
    const std::vector<int>& servers = chain(range).servers;
    const int first = servers.empty() ? shape_.server_of(range) : servers.front();
    const int last = servers.empty() ? first : servers.back();
    if (!side.missing) awaited.is_silent(first);
    else if (side.missing->members.empty() && last != first) awaited.is_silent(last);
    else if (side.missing->members.empty()) awaited.answers(first);
    else
      for (const int member : side.missing->members) awaited.lacks(member, undone(*side.missing));
  }
  return awaited;
}

// An answer to an older question says nothing about now.
void WorkerMachine::note_missing(Side& side, Packet packet) const {
  if (side.is_asked && packet.flags == question_) side.missing = std::move(packet);
}

}  // namespace paceline::server
