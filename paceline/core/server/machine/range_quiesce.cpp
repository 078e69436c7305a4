// How a range comes to the point at which all that its members have pushed is applied.
#include <algorithm>

#include "paceline/core/server/machine/range_machine.h"

namespace paceline::server {

// A worker that has not heard that all were quiet asks again, where messages may be lost.
void RangeMachine::quiesce(int from, const Packet& packet) {
  Sender& sender = senders_.at(from);
  if (packet.flags < sender.last_pull || !has_values_) return;
  sender.last_pull = packet.flags;
  sender.pull.reset();
  if (packet.flags <= sender.last_quiet) return send_quiet(from);
  sender.quiet = {packet.flags, packet.sequence};
}

// A worker is quiet when all its pushes are here: nothing of it is to come.
void RangeMachine::let_quiesce(machine::Time now) {
  if (failure_) return;
  bool are_more = false;
  for (const auto& [member, sender] : senders_) {
    if (!sender.quiet || value_.is_quiet(member) || sender.taken < sender.quiet->own) continue;
    value_.quiesce(member);
    are_more = true;
  }
  if (are_more) close_steps(now);
  if (failure_ || !value_.are_all_quiet()) return;
  value_.wake();
  for (auto& [member, sender] : senders_) {
    sender.last_quiet = sender.quiet->number;
    sender.quiet.reset();
    send_quiet(member);
  }
}

void RangeMachine::send_quiet(int to) {
  const RangeValue::View now = value_.view(kAnyLead);
  const std::vector<std::byte> all = value_.values_and_state();
  send(to, {.kind = PacketKind::quiet,
            .flags = senders_.at(to).last_quiet,
            .sequence = static_cast<std::uint64_t>(value_.rule_steps()),
            .clock = now.clock,
            .count = all.size() / shape_->element_bytes(),
            .facts = value_.facts_for(to, now),
            .elements = all});
}

// A step that waits for nobody else closes with what those that are quiet have pushed to it.
int RangeMachine::of_quiet(std::int64_t step, std::span<const Push> gathered) const {
  return static_cast<int>(std::ranges::count_if(gathered, [&](const Push& push) {
    return push.stamp == step && value_.is_quiet(push.worker);
  }));
}

}  // namespace paceline::server
