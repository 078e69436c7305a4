// Whom a range waits for, as it answers a worker that asks.

#include <iterator>

#include "paceline/core/server/machine/range_machine.h"

namespace paceline::server {

void RangeMachine::ask(int from, const Packet& packet) {
  const std::uint64_t known = state().has_values() ? 1 + members().at(from).decided : 0;
  if (packet.count > known) return fail_as_lost();
  Packet answer = missing_for(from, packet);
  if (answer.members.empty() && chain_.commit() < state().top()) answer = lacking_entries();
  answer.flags = packet.flags;
  answer.count = answer.members.size();
  send(from, std::move(answer));
}

// The range owes one of these to a member: word that first values are there, the row of a pull, the
// one that all get when they are quiet, or the answer to a push. Nobody else is to blame for pushes
// of the member's own that have not come.
Packet RangeMachine::missing_for(int from, const Packet& question) const {
  const Sender& sender = senders_.at(from);
  if (!state().has_values() && wait_for_values_.contains(from))
    return lacking(from, Lack::first_values,
                   [this](int member) { return member == shape_->members.workers.front(); });
  if (sender.quiet && sender.taken >= sender.quiet->own)
    return lacking(from, Lack::quiesce, [this](int member) { return !value().is_quiet(member); });
  if (state().is_waking() && !sender.held.empty())
    return lacking(from, Lack::quiesce,
                   [this](int member) { return members().at(member).is_waking; });
  if (lacks_round(from, question)) return missing_for_round(from);
  const std::int64_t clock = value().clock();
  const bool waits_for_row = clock < question.clock && sender.taken >= question.sequence;
  if (shape_->pacing.by_steps && (waits_for_row || sender.gathered > 0)) {
    Packet steps = lacking(from, Lack::push, [this, clock](int member) {
      return !value().is_quiet(member) && senders_.at(member).last_stamp < clock;
    });
    steps.clock = clock;
    return steps;
  }
  if (!waits_for_row) return {.kind = PacketKind::missing};
  Packet clocks = lacking(from, Lack::push, [this, &question](int member) {
    return !value().is_quiet(member) && value().clock_of(member) < question.clock;
  });
  clocks.clock = question.clock - 1;
  return clocks;
}

// One of those behind this server has not kept them, or not said so.
Packet RangeMachine::lacking_entries() const {
  Packet packet{.kind = PacketKind::missing, .sequence = static_cast<std::uint64_t>(Lack::entries)};
  const auto& servers = chain_.chain().servers;
  packet.members.assign(std::next(servers.begin()), servers.end());
  return packet;
}

Packet RangeMachine::lacking(int from, Lack lack, const std::function<bool(int)>& lacks) const {
  Packet packet{.kind = PacketKind::missing, .sequence = static_cast<std::uint64_t>(lack)};
  for (const auto& [member, sender] : senders_)
    if (member != from && lacks(member)) packet.members.push_back(member);
  return packet;
}

}  // namespace paceline::server
