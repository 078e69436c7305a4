// How a range comes to the point at which all that its members have pushed is applied.
#include <algorithm>

#include "paceline/core/server/machine/range_machine.h"

namespace paceline::server {

// A worker that has not heard that all were quiet asks again, where messages may be lost.
void RangeMachine::quiesce(int from, const Packet& packet) {
  Reader& reader = readers_[from];
  if (packet.flags < reader.last_pull || !state().has_values()) return;
  reader.last_pull = packet.flags;
  reader.pull.reset();
  Sender& sender = senders_.at(from);
  if (packet.flags <= members().at(from).last_quiet) sender.is_owed_quiet = true;
  else sender.quiet = {packet.flags, packet.sequence};
}

void RangeMachine::awake(int from, std::uint32_t number) {
  const RangeState::Member& member = members().at(from);
  if (member.is_waking && member.last_quiet == number)
    enter({.kind = EntryKind::awake, .member = from});
}

// A worker is quiet when all its pushes are decided: one in an open step lies here alone, and the
// next server would close the step without it. Those that are quiet let steps close, which decides
// pushes of others.
void RangeMachine::let_quiesce(machine::Time now) {
  const auto enter_quiet = [this] {
    bool are_more = false;
    for (const auto& [member, sender] : senders_) {
      if (!sender.quiet || value().is_quiet(member) ||
          members().at(member).decided < sender.quiet->own)
        continue;
      enter({.kind = EntryKind::quiesce, .member = member, .clock = sender.quiet->number});
      are_more = true;
    }
    return are_more;
  };
  while (!failure_ && enter_quiet()) {
    close_steps(now);
    close_rounds();
  }
  if (failure_ || !value().are_all_quiet()) return;
  enter({.kind = EntryKind::wake});
  told_.clear();
  woken_by_ = state().top();
  for (auto& [member, sender] : senders_) {
    sender.quiet.reset();
    sender.is_owed_quiet = true;
  }
}

void RangeMachine::send_quiet(int to) {
  const RangeValue::View now = value().view(kAnyLead);
  const std::vector<std::byte> all = value().values_and_state();
  send(to, {.kind = PacketKind::quiet,
            .flags = members().at(to).last_quiet,
            .sequence = static_cast<std::uint64_t>(value().rule_steps()),
            .clock = now.clock,
            .count = all.size() / shape_->element_bytes(),
            .facts = value().facts_for(to, now),
            .elements = all});
}

// A step that waits for nobody else closes with what those that are quiet have pushed to it.
int RangeMachine::of_quiet(std::int64_t step, std::span<const Push> gathered) const {
  return static_cast<int>(std::ranges::count_if(gathered, [&](const Push& push) {
    return push.facts.stamp == step && value().is_quiet(push.facts.worker);
  }));
}

}  // namespace paceline::server
