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
  }
  return "answered";
}

}  // namespace

machine::Actions WorkerMachine::ask() {
  ++question_;
  for (std::size_t range = 0; range < sides_.size(); ++range) {
    RangeState& side = sides_[range];
    side.missing.reset();
    side.is_asked = is_owed(side);
    if (side.is_asked) send(range, {.kind = PacketKind::ask, .flags = question_});
  }
  return take();
}

bool WorkerMachine::is_owed(const RangeState& side) const {
  return side.assigning || side.awaits_row || side.is_leaving || side.pushes > side.answered ||
         side.joining != Joining::no;
}

bool WorkerMachine::has_heard() const {
  return std::ranges::none_of(
      sides_, [](const RangeState& side) { return side.is_asked && !side.missing.has_value(); });
}

coordination::Awaited WorkerMachine::awaited() const {
  coordination::Awaited awaited;
  for (std::size_t range = 0; range < sides_.size(); ++range) {
    const RangeState& side = sides_[range];
    if (!side.is_asked || !is_owed(side)) continue;
    const int server = shape_.server_of(range);
    if (!side.missing) awaited.is_silent(server);
    else if (side.missing->members.empty()) awaited.answers(server);
    else
      for (const int member : side.missing->members) awaited.lacks(member, undone(*side.missing));
  }
  return awaited;
}

// An answer to an older question says nothing about now.
void WorkerMachine::note_missing(RangeState& side, Packet packet) const {
  if (side.is_asked && packet.flags == question_) side.missing = std::move(packet);
}

}  // namespace paceline::server
