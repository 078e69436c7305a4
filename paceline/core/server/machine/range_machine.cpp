#include "paceline/core/server/machine/range_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

namespace paceline::server {

using machine::Actions;
using machine::Time;

RangeMachine::RangeMachine(const TableShape& shape, std::size_t range, std::uint32_t timer, int own,
                           const Chain& chain, bool is_fresh)
    : shape_(&shape),
      range_(static_cast<std::uint32_t>(range)),
      timer_(timer),
      chain_(shape, range, own, chain, is_fresh) {
  if (chain_.is_head()) begin_as_head();
}

// All that has been decided is answered again when it is committed: the workers may not know it.
void RangeMachine::begin_as_head() {
  senders_.clear();
  for (const auto& [worker, member] : members()) {
    Sender& sender = senders_[worker];
    sender.taken = member.decided;
    sender.last_stamp = member.last_stamp;
    if (member.decided > 0)
      sender.decisions.push_back({state().top(), member.decided, member.dropped});
  }
  open_.clear();
  if (!state().folded().empty()) open_[value().clock()] = state().folded();
  timed_out_.reset();
  told_.clear();
  assigned_by_ = woken_by_ = state().top();
  for (const int worker : std::set<int>(lost_)) leave(worker);
}

Actions RangeMachine::configure(const Chain& chain, Time now) {
  const bool was_head = chain_.is_head();
  chain_.configure(chain);
  if (chain_.is_head() && !was_head) begin_as_head();
  if (!chain_.is_head()) senders_.clear();
  if (chain_.has_lost_state()) fail_as_lost();
  return settle(now);
}

Actions RangeMachine::say_again(Time now) {
  chain_.say_again();
  return settle(now);
}

Result<Actions> RangeMachine::on_chain_packet(int from, ChainPacket packet, Time now) {
  const bool was_head = chain_.is_head();
  if (const auto taken = chain_.on_packet(from, std::move(packet)); !taken) return taken.error();
  if (chain_.is_head() && !was_head) begin_as_head();
  return settle(now);
}

// Pulls are for the last server. Where steps close without some workers, or rounds end, the first one
// must know them too.
bool RangeMachine::takes(const Packet& packet) const {
  if (packet.kind == PacketKind::pull)
    return chain_.is_tail() || (chain_.is_head() && shape_->pacing.pulls_at_both_ends());
  return chain_.is_head();
}

Actions RangeMachine::on_packet(int from, Packet packet, Time now) {
  if (chain_.has_lost_state() && packet.kind == PacketKind::leave)
    send(from, {.kind = PacketKind::left});
  else if (chain_.has_lost_state()) send_failure(from);
  else if (!takes(packet)) send(from, {.kind = PacketKind::moved});
  else take(from, std::move(packet), now);
  return settle(now);
}

void RangeMachine::take(int from, Packet packet, Time now) {
  const bool is_new = packet.kind == PacketKind::join && !state().has_left(from);
  if (packet.kind == PacketKind::leave) {
    const auto sender = senders_.find(from);
    if (sender != senders_.end()) sender->second.leaves_behind = packet.sequence;
    else end(from);
  } else if (failure_) {
    send_failure(from);
  } else if (state().has(from) || is_new) {
    switch (packet.kind) {
      case PacketKind::assign: assign(from, packet); break;
      case PacketKind::push: push(from, std::move(packet), now); break;
      case PacketKind::pull: pull(from, packet); break;
      case PacketKind::join: join(from, packet); break;
      case PacketKind::quiesce: quiesce(from, packet); break;
      case PacketKind::awake: awake(from, packet.flags); break;
      case PacketKind::ask:
        if (!is_new) ask(from, packet);
        break;
      default: break;  // not for a server
    }
    take_held(now);
  }
  let_leave();
}

void RangeMachine::end(int worker) {
  leave(worker);
  leaving_.try_emplace(worker, state().top());
}

// Its last pushes may come behind it, for another server took the first of them.
void RangeMachine::let_leave() {
  std::set<int> those;
  for (const auto& [worker, sender] : senders_)
    if (sender.leaves_behind && (failure_ || sender.taken >= *sender.leaves_behind))
      those.insert(worker);
  for (const int worker : those) end(worker);
}

Actions RangeMachine::on_timer(Time now) {
  if (open_.contains(value().clock())) timed_out_ = value().clock();
  return settle(now);
}

Actions RangeMachine::on_lost(int peer, Time now) {
  lost_.insert(peer);
  if (chain_.is_head()) leave(peer);
  readers_.erase(peer);
  return settle(now);
}

// --- what comes from workers ---------------------------------------------------------------------

void RangeMachine::assign(int from, const Packet& packet) {
  if (packet.sequence != shape_->fingerprint())
    return fail(
        fmt::format("member {} means another table by this name than its server: its "
                    "elements, dtype, synchrony, rule, parts or members differ",
                    from));
  const std::size_t elements = shape_->ranges[range_].elements;
  const std::size_t slots = shape_->slots();
  if (packet.count > 0 && packet.count != elements && packet.count != elements * (1 + slots))
    return fail(fmt::format("member {} gave {} first values for a range of {}", from, packet.count,
                            elements));
  if (packet.clock < 0 || packet.clock > RuleState::kMostSteps)
    return fail(fmt::format("member {} gave a state of {} steps", from, packet.clock));
  if (packet.count > 0 && !state().has_values()) {
    enter({.kind = EntryKind::assign,
           .clock = packet.clock,
           .values = {packet.elements.begin(), packet.elements.end()}});
    assigned_by_ = state().top();
  }
  wait_for_values_.insert(from);
}

void RangeMachine::push(int from, Packet packet, Time) {
  Sender& sender = senders_.at(from);
  if (packet.sequence <= sender.taken) {
    if (packet.sequence <= sender.committed) sender.owed = sender.owed.value_or(0);  // a repeat
    return;
  }
  // Workers keep what they were not answered, and give first values before they push.
  const bool is_ahead =
      !state().has_values() || packet.sequence > members().at(from).decided + kWindow;
  if (shape_->spec.replicas > 1 && is_ahead) return fail_as_lost();
  Push push{{from, packet.sequence, packet.clock, packet.weight, packet.read},
            std::move(packet.settings),
            {packet.elements.begin(), packet.elements.end()}};
  if (const std::string why = complaint(from, push); !why.empty())
    return fail(fmt::format("push {} of member {} at clock {} {}", push.facts.sequence, from,
                            push.facts.stamp, why));
  awake(from, members().at(from).last_quiet);
  sender.held.insert_or_assign(push.facts.sequence, std::move(push));
  most_held_ = std::max(most_held_, sender.held.size());
}

// Those that have not the row of a quiet moment yet must find it when they ask for it again.
void RangeMachine::take_held(Time now) {
  for (auto& [worker, sender] : senders_) {
    while (!failure_ && !state().is_waking() && !sender.held.empty() &&
           sender.held.begin()->first == sender.taken + 1) {
      auto next = sender.held.extract(sender.held.begin());
      ++sender.taken;
      ++pushes_;
      offer(std::move(next.mapped()), now);
    }
  }
}

std::string RangeMachine::complaint(int from, const Push& push) const {
  if (push.facts.sequence > members().at(from).decided + kWindow)
    return fmt::format("is more than {} ahead of its last answer", kWindow);
  if (push.values.size() != shape_->ranges[range_].elements * shape_->element_bytes())
    return fmt::format("has {} bytes for {} elements", push.values.size(),
                       shape_->ranges[range_].elements);
  if (push.settings.size() != shape_->rule.entry.settings.size())
    return fmt::format("has {} settings for the {} of {}", push.settings.size(),
                       shape_->rule.entry.settings.size(), shape_->rule.entry.name);
  return state().has_values() ? "" : "came before the first values: call assign() first";
}

void RangeMachine::pull(int from, const Packet& packet) {
  Reader& reader = readers_[from];
  if (packet.flags < reader.last_pull) return;  // the worker has asked again since
  reader.last_pull = packet.flags;
  reader.pull = {packet.flags, packet.clock, packet.sequence};
  if (!chain_.is_head() || packet.flags <= members().at(from).last_quiet) return;
  awake(from, members().at(from).last_quiet);
  hear_of(packet.rounds);
}

void RangeMachine::join(int from, const Packet& packet) {
  if (!state().has(from)) enter({.kind = EntryKind::join, .member = from});
  Sender& sender = senders_[from];
  if (packet.clock != kAnyClock && packet.clock > value().clock_of(from))
    enter({.kind = EntryKind::raise, .member = from, .clock = packet.clock});
  sender.owed = state().top();
}

// A dead worker's pushes to open steps never happened.
void RangeMachine::leave(int worker) {
  wait_for_values_.erase(worker);
  readers_.erase(worker);
  senders_.erase(worker);
  if (state().has_left(worker)) return;
  if (!state().has(worker)) return enter({.kind = EntryKind::leave, .member = worker});
  for (auto& [step, pushes] : open_)
    std::erase_if(pushes, [&](const Push& push) { return push.facts.worker == worker; });
  std::erase_if(open_, [](const auto& one) { return one.second.empty(); });
  enter({.kind = EntryKind::leave, .member = worker});
  if (!state().has_values() && worker == shape_->members.workers.front())
    fail(fmt::format("worker {} has ended before it gave the first values", worker));
}

// --- from pushes to steps ------------------------------------------------------------------------

void RangeMachine::offer(Push push, Time now) {
  const Pacing& pacing = shape_->pacing;
  const PushFacts& facts = push.facts;
  Sender& sender = senders_.at(facts.worker);
  const std::int64_t clock = value().clock();
  if (facts.stamp <= sender.last_stamp)
    return fail(fmt::format("member {} pushed at clock {} after {}", facts.worker, facts.stamp,
                            sender.last_stamp));
  if (pacing.lead != kAnyLead && facts.stamp > clock + pacing.lead)
    return fail(
        fmt::format("member {} pushed at clock {}, more than {} ahead of {}: pull before "
                    "each push",
                    facts.worker, facts.stamp, pacing.lead, clock));
  sender.last_stamp = facts.stamp;
  if (!pacing.by_steps) decide(EntryKind::show, std::move(push));
  else if (facts.stamp < clock) offer_late(std::move(push), now);
  else gather(facts.stamp, std::move(push), now);
}

void RangeMachine::offer_late(Push push, Time now) {
  switch (shape_->pacing.late) {
    case Late::drop: return decide(EntryKind::drop, std::move(push));
    case Late::apply_late: return decide(EntryKind::late, std::move(push));
    case Late::fold_into_next: {
      decide(EntryKind::fold, push);
      return gather(value().clock(), std::move(push), now);
    }
  }
}

void RangeMachine::gather(std::int64_t step, Push push, Time now) {
  auto& gathered = open_[step];
  const auto is_of_step = [&](const Push& one) { return one.facts.stamp == step; };
  if (shape_->pacing.wait && is_of_step(push) && std::ranges::none_of(gathered, is_of_step))
    actions_.emplace_back(machine::Arm{timer_, now + *shape_->pacing.wait});
  if (++senders_.at(push.facts.worker).gathered > kWindow)
    return fail(
        fmt::format("member {} has more than {} pushes in open steps", push.facts.worker, kWindow));
  gathered.push_back(std::move(push));
  most_open_ = std::max(most_open_, open_.size());
  close_steps(now);
}

// Pushes of earlier stamps are folded into the step, and do not make it full.
bool RangeMachine::can_close(std::int64_t step, std::span<const Push> gathered) const {
  const Pacing& pacing = shape_->pacing;
  const auto of_step =
      std::ranges::count_if(gathered, [&](const Push& push) { return push.facts.stamp == step; });
  int needed = value().counted_in(step) + of_quiet(step, gathered);
  if (pacing.spare > 0) {
    const int most = static_cast<int>(shape_->members.workers.size()) - pacing.spare;
    needed = value().has_quiet() ? std::min(needed, most) : most;
  }
  if (timed_out_ == step) needed = std::min(needed, pacing.quorum);
  return of_step >= std::max(needed, 1) || all_have_passed(step);
}

// A member that is lost may have closed this step in other ranges, whose version the others have
// read: they all wait for it here, and none of them pushes to this step any more.
bool RangeMachine::all_have_passed(std::int64_t step) const {
  if (!shape_->pacing.skips_steps() || has_too_few_members()) return false;
  bool somebody_waits = false;
  for (const auto& [member, sender] : senders_) {
    if (value().is_quiet(member)) continue;
    const auto reader = readers_.find(member);
    if (reader == readers_.end() || !reader->second.pull ||
        reader->second.pull->least != step + 1 || sender.taken < reader->second.pull->own)
      return false;
    somebody_waits = true;
  }
  return somebody_waits;
}

// With spare workers the first pushes make up the step, and those that are left come too late.
void RangeMachine::close_steps(Time now) {
  while (!failure_) {
    const std::int64_t step = value().clock();
    const auto found = open_.find(step);
    const bool is_open = found != open_.end();
    if (!can_close(step, is_open ? std::span(found->second) : std::span<Push>{})) return;
    std::vector<Push> pushes;
    if (is_open) pushes = std::move(open_.extract(found).mapped());
    for (const Push& push : pushes)
      if (const auto sender = senders_.find(push.facts.worker); sender != senders_.end())
        --sender->second.gathered;
    std::vector<Push> late;
    if (shape_->pacing.spare > 0) {
      const auto first =
          std::min(std::ssize(pushes), std::ssize(shape_->members.workers) - shape_->pacing.spare);
      late.assign(std::make_move_iterator(pushes.begin() + first),
                  std::make_move_iterator(pushes.end()));
      pushes.erase(pushes.begin() + first, pushes.end());
    }
    close(std::move(pushes));
    timed_out_.reset();
    for (Push& push : late) offer_late(std::move(push), now);
  }
}

void RangeMachine::close(std::vector<Push> pushes) {
  std::ranges::sort(pushes, {}, [](const Push& push) {
    return std::tie(push.facts.worker, push.facts.sequence);
  });
  RangeEntry entry{.kind = EntryKind::step};
  for (const Push& push : pushes) {
    entry.pushes.push_back(push.facts);
    entry.total += push.facts.weight;
  }
  if (!pushes.empty()) entry.settings = pushes.front().settings;
  entry.values = value().combined(std::move(pushes), entry.total);
  const std::int64_t step = value().clock();
  const std::vector<PushFacts> facts = entry.pushes;
  enter(std::move(entry));
  for (const PushFacts& push : facts)
    if (push.stamp == step) note_decided(push);
}

void RangeMachine::decide(EntryKind kind, Push push) {
  const PushFacts facts = push.facts;
  RangeEntry entry{.kind = kind};
  if (kind == EntryKind::late) entry.total = value().share_late(push);
  entry.pushes = {push.facts};
  if (kind != EntryKind::drop) entry.settings = push.settings;
  if (kind == EntryKind::late) {
    std::vector<Push> one;
    one.push_back(std::move(push));
    entry.values = value().combined(std::move(one), entry.total);
  } else if (kind != EntryKind::drop) {
    entry.values = std::move(push.values);
  }
  enter(std::move(entry));
  note_decided(facts);
}

void RangeMachine::note_decided(const PushFacts& push) {
  const auto sender = senders_.find(push.worker);
  if (sender != senders_.end())
    sender->second.decisions.push_back(
        {state().top(), push.sequence, members().at(push.worker).dropped});
}

// --- what goes to workers ------------------------------------------------------------------------

void RangeMachine::send(int to, Packet packet) {
  packet.range = range_;
  actions_.emplace_back(machine::Send{to, encode(packet)});
}

void RangeMachine::fail(std::string why) {
  if (failure_) return;
  failure_ = fmt::format("table '{}': {}", shape_->spec.name, why);
  for (const auto& [member, sender] : senders_) send_failure(member);
}

void RangeMachine::send_failure(int to) {
  send(to,
       {.kind = PacketKind::failed, .flags = is_lost_ ? Packet::kIsLost : 0, .text = *failure_});
}

// Servers that had it have ended, and this one does not know all that workers were told.
void RangeMachine::fail_as_lost() {
  is_lost_ = true;
  fail(
      fmt::format("the servers that kept its range {} have ended, and no other had all of it yet: "
                  "go on from a checkpoint (--max-restarts)",
                  range_));
}

bool RangeMachine::has_too_few_members() const {
  const std::int64_t spare = shape_->pacing.spare;
  return spare > 0 && std::ssize(senders_) < std::ssize(shape_->members.workers) - spare;
}

// Workers may leave after their last steps; those that wait for another one would wait for ever.
void RangeMachine::check_numbers() {
  const std::int64_t clock = value().clock();
  const bool somebody_waits = !open_.empty() || std::ranges::any_of(readers_, [&](const auto& one) {
    return one.second.pull && one.second.pull->least > clock;
  });
  if (has_too_few_members() && somebody_waits)
    fail(
        fmt::format("{} workers are left, and a step needs {}: start more workers, or with a "
                    "greater spare",
                    senders_.size(), shape_->members.workers.size() - shape_->pacing.spare));
}

Actions RangeMachine::settle(Time now) {
  if (chain_.is_head()) {
    close_steps(now);
    close_rounds();
    let_quiesce(now);
    check_numbers();
  }
  append(actions_, chain_.flow());
  if (!may_answer_ || may_answer_(now)) {
    if (chain_.is_head()) answer_members();
    if (chain_.is_tail() && chain_.is_ready() && !failure_) answer_pulls();
  }
  return std::exchange(actions_, {});
}

void RangeMachine::answer_members() {
  const std::uint64_t commit = chain_.commit();
  std::erase_if(leaving_, [&](const auto& one) {
    if (one.second > commit) return false;
    send(one.first, {.kind = PacketKind::left});
    return true;
  });
  if (failure_) return;
  if (state().has_values() && assigned_by_ <= commit)
    for (const int member : std::exchange(wait_for_values_, {}))
      send(member, {.kind = PacketKind::assigned});
  for (auto& [member, sender] : senders_) {
    for (; !sender.decisions.empty() && sender.decisions.front().entry <= commit;
         sender.decisions.pop_front()) {
      sender.committed = sender.decisions.front().sequence;
      sender.dropped = sender.decisions.front().dropped;
      sender.owed = sender.owed.value_or(0);
    }
    if (sender.owed && *sender.owed <= commit) {
      sender.owed.reset();
      send(member, {.kind = PacketKind::answer,
                    .flags = sender.dropped,
                    .sequence = sender.committed,
                    .clock = value().clock(),
                    .count = static_cast<std::uint64_t>(value().clock_of(member))});
    }
    if (woken_by_ <= commit && std::exchange(sender.is_owed_quiet, false)) send_quiet(member);
  }
}

// A server alone knows which pushes it has taken; the last of several, those that were decided.
void RangeMachine::answer_pulls() {
  const std::int64_t clock = value().clock();
  for (auto& [member, reader] : readers_) {
    if (!reader.pull || !state().has_values() || clock < reader.pull->least || !state().has(member))
      continue;
    const bool has_own = chain_.is_head() ? senders_.at(member).taken >= reader.pull->own
                                          : shape_->pacing.by_steps ||
                                                members().at(member).decided >= reader.pull->own;
    const bool has_round = !shape_->pacing.rounds || value().own(member) >= reader.pull->own;
    if (!has_own || !has_round) continue;
    const RangeValue::View view = chain_.row_for(member, reader.pull->number, reader.pull->least);
    send(member, {.kind = PacketKind::row,
                  .flags = reader.pull->number,
                  .sequence = value().own(member),
                  .clock = view.clock,
                  .count = shape_->ranges[range_].elements,
                  .facts = value().facts_for(member, view),
                  .elements = view.values,
                  .rounds = rounds_to_tell()});
    reader.pull.reset();
  }
}

}  // namespace paceline::server
