// How members of a range rest.
#include <algorithm>

#include "paceline/core/server/machine/range_machine.h"

namespace paceline::server {

// A rest that has ended is asked for again by those that have not heard of it, where messages may
// be lost.
void RangeMachine::rest(int from, const Packet& packet) {
  Sender& sender = senders_.at(from);
  if (packet.flags < sender.last_pull || !has_values_) return;
  sender.last_pull = packet.flags;
  sender.pull.reset();
  if (packet.flags <= sender.last_rest) return send_rested(from);
  sender.rest = {packet.flags, packet.sequence};
}

// A worker rests when all its pushes are here: nothing of it is to come.
void RangeMachine::let_rest(machine::Time now) {
  if (failure_) return;
  bool are_more = false;
  for (const auto& [member, sender] : senders_) {
    if (!sender.rest || value_.rests(member) || sender.taken < sender.rest->own) continue;
    value_.rest(member);
    are_more = true;
  }
  if (are_more) close_steps(now);
  if (failure_ || !value_.all_rest()) return;
  value_.wake();
  for (auto& [member, sender] : senders_) {
    sender.last_rest = sender.rest->number;
    sender.rest.reset();
    send_rested(member);
  }
}

void RangeMachine::send_rested(int to) {
  const RangeValue::View now = value_.view(kAnyLead);
  const std::vector<std::byte> all = value_.values_and_state();
  send(to, {.kind = PacketKind::rested,
            .flags = senders_.at(to).last_rest,
            .sequence = static_cast<std::uint64_t>(value_.rule_steps()),
            .clock = now.clock,
            .count = all.size() / shape_->element_bytes(),
            .facts = value_.facts_for(to, now),
            .elements = all});
}

// A step that waits for nobody else closes with what those that rest have pushed to it.
int RangeMachine::of_resting(std::int64_t step, std::span<const Push> gathered) const {
  return static_cast<int>(std::ranges::count_if(
      gathered, [&](const Push& push) { return push.stamp == step && value_.rests(push.worker); }));
}

}  // namespace paceline::server
