#include "paceline/core/server/machine/range_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

namespace paceline::server {

using machine::Actions;
using machine::Time;

RangeMachine::RangeMachine(const TableShape& shape, std::size_t range, std::uint32_t timer)
    : shape_(&shape),
      range_(static_cast<std::uint32_t>(range)),
      timer_(timer),
      value_(shape, range) {
  for (const int worker : shape.members.workers) senders_[worker] = {};
}

Actions RangeMachine::on_packet(int from, Packet packet, Time now) {
  const bool is_new = packet.kind == PacketKind::join && !gone_.contains(from);
  if (packet.kind == PacketKind::leave) {
    leave(from);
    send(from, {.kind = PacketKind::left});
  } else if (failure_) {
    send(from, {.kind = PacketKind::failed, .text = *failure_});
  } else if (senders_.contains(from) || is_new) {
    switch (packet.kind) {
      case PacketKind::assign: assign(from, packet); break;
      case PacketKind::push: push(from, std::move(packet), now); break;
      case PacketKind::pull: pull(from, packet); break;
      case PacketKind::join: join(from, packet); break;
      case PacketKind::quiesce: quiesce(from, packet); break;
      case PacketKind::ask:
        if (!is_new) ask(from, packet);
        break;
      default: break;  // not for a server
    }
  }
  return settle(now);
}

Actions RangeMachine::on_timer(Time now) {
  if (open_.contains(value_.clock())) timed_out_ = value_.clock();
  return settle(now);
}

Actions RangeMachine::on_lost(int peer, Time now) {
  leave(peer);
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
  const auto slots = static_cast<std::size_t>(shape_->rule.entry.slots);
  if (packet.count > 0 && packet.count != elements && packet.count != elements * (1 + slots))
    return fail(fmt::format("member {} gave {} first values for a range of {}", from, packet.count,
                            elements));
  if (packet.clock < 0 || packet.clock > RuleState::kMostSteps)
    return fail(fmt::format("member {} gave a state of {} steps", from, packet.clock));
  if (packet.count > 0 && !has_values_) {
    value_.assign(packet.elements, packet.clock);
    has_values_ = true;
  }
  wait_for_values_.insert(from);
  if (!has_values_) return;
  for (const int member : wait_for_values_) send(member, {.kind = PacketKind::assigned});
  wait_for_values_.clear();
}

void RangeMachine::push(int from, Packet packet, Time now) {
  Sender& sender = senders_.at(from);
  if (packet.sequence <= sender.taken) {
    sender.is_owed |= packet.sequence <= sender.decided;  // a repeat
    return;
  }
  Push push{from,
            packet.sequence,
            packet.clock,
            packet.weight,
            std::move(packet.settings),
            {packet.elements.begin(), packet.elements.end()},
            value_.version_read_by(from)};
  if (const std::string why = complaint(sender, push); !why.empty())
    return fail(
        fmt::format("push {} of member {} at clock {} {}", push.sequence, from, push.stamp, why));
  sender.held.insert_or_assign(push.sequence, std::move(push));
  most_held_ = std::max(most_held_, sender.held.size());
  while (!failure_ && !sender.held.empty() && sender.held.begin()->first == sender.taken + 1) {
    auto next = sender.held.extract(sender.held.begin());
    ++sender.taken;
    ++pushes_;
    offer(std::move(next.mapped()), now);
  }
}

std::string RangeMachine::complaint(const Sender& sender, const Push& push) const {
  if (push.sequence > sender.decided + kWindow)
    return fmt::format("is more than {} ahead of its last answer", kWindow);
  if (push.values.size() != shape_->ranges[range_].elements * shape_->element_bytes())
    return fmt::format("has {} bytes for {} elements", push.values.size(),
                       shape_->ranges[range_].elements);
  if (push.settings.size() != shape_->rule.entry.settings.size())
    return fmt::format("has {} settings for the {} of {}", push.settings.size(),
                       shape_->rule.entry.settings.size(), shape_->rule.entry.name);
  return has_values_ ? "" : "came before the first values: call assign() first";
}

void RangeMachine::pull(int from, const Packet& packet) {
  Sender& sender = senders_.at(from);
  if (packet.flags < sender.last_pull) return;  // the worker has asked again since
  sender.last_pull = packet.flags;
  sender.pull = {packet.flags, packet.clock, packet.sequence};
}

void RangeMachine::join(int from, const Packet& packet) {
  senders_.try_emplace(from);
  if (!value_.has(from)) value_.join(from);
  if (packet.clock != kAnyClock) value_.raise(from, packet.clock);
  senders_.at(from).is_owed = true;
}

// A dead worker's pushes to open steps never happened.
void RangeMachine::leave(int worker) {
  gone_.insert(worker);
  wait_for_values_.erase(worker);
  if (senders_.erase(worker) == 0) return;
  for (auto& [step, pushes] : open_)
    std::erase_if(pushes, [&](const Push& push) { return push.worker == worker; });
  std::erase_if(open_, [](const auto& one) { return one.second.empty(); });
  value_.leave(worker);
  if (!has_values_ && worker == shape_->members.workers.front())
    fail(fmt::format("worker {} has ended before it gave the first values", worker));
}

// --- from pushes to steps ------------------------------------------------------------------------

void RangeMachine::offer(Push push, Time now) {
  const Pacing& pacing = shape_->pacing;
  Sender& sender = senders_.at(push.worker);
  const std::int64_t clock = value_.clock();
  if (push.stamp <= sender.last_stamp)
    return fail(fmt::format("member {} pushed at clock {} after {}", push.worker, push.stamp,
                            sender.last_stamp));
  if (pacing.lead != kAnyLead && push.stamp > clock + pacing.lead)
    return fail(
        fmt::format("member {} pushed at clock {}, more than {} ahead of {}: pull before "
                    "each push",
                    push.worker, push.stamp, pacing.lead, clock));
  sender.last_stamp = push.stamp;
  if (pacing.by_steps) {
    push.stamp < clock ? offer_late(std::move(push), now)
                       : gather(push.stamp, std::move(push), now);
  } else {
    decide(push);
    value_.take(std::move(push));
  }
}

void RangeMachine::offer_late(Push push, Time now) {
  switch (shape_->pacing.late) {
    case Late::drop: return decide(push, true);
    case Late::apply_late: decide(push); return value_.apply_late(std::move(push));
    case Late::fold_into_next: decide(push); return gather(value_.clock(), std::move(push), now);
  }
}

void RangeMachine::gather(std::int64_t step, Push push, Time now) {
  auto& gathered = open_[step];
  const auto is_of_step = [&](const Push& one) { return one.stamp == step; };
  if (shape_->pacing.wait && is_of_step(push) && std::ranges::none_of(gathered, is_of_step))
    actions_.emplace_back(machine::Arm{timer_, now + *shape_->pacing.wait});
  if (++senders_.at(push.worker).gathered > kWindow)
    return fail(
        fmt::format("member {} has more than {} pushes in open steps", push.worker, kWindow));
  gathered.push_back(std::move(push));
  most_open_ = std::max(most_open_, open_.size());
  close_steps(now);
}

// Pushes of earlier stamps are folded into the step, and do not make it full.
bool RangeMachine::can_close(std::int64_t step, std::span<const Push> gathered) const {
  const Pacing& pacing = shape_->pacing;
  const auto of_step =
      std::ranges::count_if(gathered, [&](const Push& push) { return push.stamp == step; });
  int needed = value_.counted_in(step) + of_quiet(step, gathered);
  if (pacing.spare > 0) {
    const int most = static_cast<int>(shape_->members.workers.size()) - pacing.spare;
    needed = value_.has_quiet() ? std::min(needed, most) : most;
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
    if (value_.is_quiet(member)) continue;
    if (!sender.pull || sender.pull->least != step + 1 || sender.taken < sender.pull->own)
      return false;
    somebody_waits = true;
  }
  return somebody_waits;
}

// With spare workers the first pushes make up the step, and those that are left come too late.
void RangeMachine::close_steps(Time now) {
  while (!failure_) {
    const std::int64_t step = value_.clock();
    const auto found = open_.find(step);
    const bool is_open = found != open_.end();
    if (!can_close(step, is_open ? std::span(found->second) : std::span<Push>{})) return;
    std::vector<Push> pushes;
    if (is_open) pushes = std::move(open_.extract(found).mapped());
    for (const Push& push : pushes) --senders_.at(push.worker).gathered;
    std::vector<Push> late;
    if (shape_->pacing.spare > 0) {
      const auto first =
          std::min(std::ssize(pushes), std::ssize(shape_->members.workers) - shape_->pacing.spare);
      late.assign(std::make_move_iterator(pushes.begin() + first),
                  std::make_move_iterator(pushes.end()));
      pushes.erase(pushes.begin() + first, pushes.end());
    }
    for (const Push& push : pushes)
      if (push.stamp == step) decide(push);
    std::ranges::sort(pushes, {},
                      [](const Push& push) { return std::tie(push.worker, push.sequence); });
    value_.close_step(std::move(pushes));
    timed_out_.reset();
    for (Push& push : late) offer_late(std::move(push), now);
  }
}

// Pushes of a worker are decided in their order.
void RangeMachine::decide(const Push& push, bool dropped) {
  Sender& sender = senders_.at(push.worker);
  sender.decided = std::max(sender.decided, push.sequence);
  sender.dropped += dropped ? 1 : 0;
  sender.is_owed = true;
}

// --- what goes to workers ------------------------------------------------------------------------

void RangeMachine::send(int to, Packet packet) {
  packet.range = range_;
  actions_.emplace_back(machine::Send{to, encode(packet)});
}

void RangeMachine::fail(std::string why) {
  if (failure_) return;
  failure_ = fmt::format("table '{}': {}", shape_->spec.name, why);
  for (const auto& [member, sender] : senders_)
    send(member, {.kind = PacketKind::failed, .text = *failure_});
}

bool RangeMachine::has_too_few_members() const {
  const std::int64_t spare = shape_->pacing.spare;
  return spare > 0 && std::ssize(senders_) < std::ssize(shape_->members.workers) - spare;
}

// Workers may leave after their last steps; those that wait for another one would wait for ever.
void RangeMachine::check_numbers() {
  const std::int64_t clock = value_.clock();
  const bool somebody_waits = !open_.empty() || std::ranges::any_of(senders_, [&](const auto& one) {
    return one.second.pull && one.second.pull->least > clock;
  });
  if (has_too_few_members() && somebody_waits)
    fail(
        fmt::format("{} workers are left, and a step needs {}: start more workers, or with a "
                    "greater spare",
                    senders_.size(), shape_->members.workers.size() - shape_->pacing.spare));
}

Actions RangeMachine::settle(Time now) {
  close_steps(now);
  let_quiesce(now);
  check_numbers();
  const std::int64_t clock = value_.clock();
  for (auto& [member, sender] : senders_) {
    if (failure_) break;
    if (std::exchange(sender.is_owed, false))
      send(member, {.kind = PacketKind::answer,
                    .flags = sender.dropped,
                    .sequence = sender.decided,
                    .clock = clock,
                    .count = static_cast<std::uint64_t>(value_.clock_of(member))});
    if (!sender.pull || !has_values_ || clock < sender.pull->least ||
        sender.taken < sender.pull->own)
      continue;
    const RangeValue::View view = value_.view(sender.pull->least);
    send(member, {.kind = PacketKind::row,
                  .flags = sender.pull->number,
                  .sequence = value_.own(member),
                  .clock = view.clock,
                  .count = shape_->ranges[range_].elements,
                  .facts = value_.facts_for(member, view),
                  .elements = view.values});
    sender.pull.reset();
  }
  Actions actions;
  actions.swap(actions_);
  return actions;
}

}  // namespace paceline::server
