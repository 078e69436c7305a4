#include "paceline/core/server/sparse/share_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace paceline::server {

using machine::Actions;

ShareMachine::ShareMachine(const SparseShape& shape, std::size_t share)
    : shape_(&shape), share_(static_cast<std::uint32_t>(share)), value_(shape) {
  for (const int worker : shape.members.workers) senders_[worker] = {};
}

Actions ShareMachine::on_packet(int from, SparsePacket packet) {
  try {
    hear(from, packet);
    return settle();
  } catch (const std::bad_alloc&) {
    fail("its server has no memory for more rows: start more servers");
    return std::exchange(actions_, {});
  }
}

void ShareMachine::hear(int from, const SparsePacket& packet) {
  if (packet.kind == SparseKind::leave) {
    leave(from);
    send(from, {.kind = SparseKind::left});
  } else if (failure_) {
    send(from, {.kind = SparseKind::failed, .text = *failure_});
  } else if (senders_.contains(from)) {
    switch (packet.kind) {
      case SparseKind::begin: begin(from, packet); break;
      case SparseKind::push: push(from, packet); break;
      case SparseKind::pull: pull(from, packet); break;
      case SparseKind::rest: rest(from, packet); break;
      case SparseKind::ask: ask(from, packet); break;
      case SparseKind::fetch: fetch(from, packet); break;
      case SparseKind::store: store(from, packet); break;
      default: break;  // not for a server
    }
  }
}

Actions ShareMachine::on_lost(int peer) {
  leave(peer);
  return settle();
}

void ShareMachine::forget_lists() {
  for (auto& [member, sender] : senders_) sender.lists.clear();
}

// --- what comes from workers ---------------------------------------------------------------------

void ShareMachine::begin(int from, const SparsePacket& packet) {
  if (packet.sequence != shape_->fingerprint())
    return fail(
        fmt::format("member {} means another table by this name than its server: its width, "
                    "dtype, synchrony, rule, seed, spread or members differ",
                    from));
  send(from, {.kind = SparseKind::begun, .clock = value_.clock()});
}

SharedIds ShareMachine::ids_of(int from, const SparsePacket& packet) {
  ListCache& lists = senders_.at(from).lists;
  if (packet.ids) {
    lists.put(packet.key(), packet.ids);
    return packet.ids;
  }
  if (SharedIds known = lists.find(packet.key())) return known;
  ++unknown_;
  send(from, {.kind = SparseKind::unknown,
              .flags = packet.kind == SparseKind::push ? 1u : 0u,
              .number = packet.number});
  return nullptr;
}

std::string ShareMachine::complaint(const Sender& sender, const SparsePacket& packet) const {
  if (packet.number > sender.decided + kWindow)
    return fmt::format("is more than {} ahead of its last answer", kWindow);
  if (packet.clock < 0 || packet.clock > RuleState::kMostSteps) return "has no clock";
  return packet.rows.size() == packet.count * shape_->value_bytes()
             ? ""
             : fmt::format("has {} bytes for {} rows", packet.rows.size(), packet.count);
}

void ShareMachine::push(int from, const SparsePacket& packet) {
  Sender& sender = senders_.at(from);
  if (packet.number <= sender.taken) {
    sender.is_owed |= packet.number <= sender.decided;  // a repeat
    return;
  }
  if (const std::string why = complaint(sender, packet); !why.empty())
    return fail(
        fmt::format("push {} of member {} at clock {} {}", packet.number, from, packet.clock, why));
  SharedIds ids = ids_of(from, packet);
  if (!ids) return;
  sender.held.insert_or_assign(
      packet.number, SparsePush{from,
                                packet.number,
                                packet.clock,
                                packet.weight,
                                packet.rate,
                                {std::move(ids), {packet.rows.begin(), packet.rows.end()}}});
  most_held_ = std::max(most_held_, sender.held.size());
  while (!failure_ && !sender.held.empty() && sender.held.begin()->first == sender.taken + 1) {
    auto next = sender.held.extract(sender.held.begin());
    ++sender.taken;
    ++pushes_;
    offer(std::move(next.mapped()));
  }
}

// A worker waits for a few pulls at a time, so older ones are of no use to it.
void ShareMachine::pull(int from, const SparsePacket& packet) {
  Sender& sender = senders_.at(from);
  SharedIds ids = ids_of(from, packet);
  if (!ids) return;
  sender.pulls.insert_or_assign(packet.number, Pull{packet.clock, packet.sequence, std::move(ids)});
  if (sender.pulls.size() > kWindow) sender.pulls.erase(sender.pulls.begin());
  most_held_ = std::max(most_held_, sender.pulls.size());
}

// A worker that has not heard that all have rested asks again, where messages may be lost.
void ShareMachine::rest(int from, const SparsePacket& packet) {
  Sender& sender = senders_.at(from);
  if (packet.number <= sender.last_rest) return send_rested(from);
  sender.rest = {packet.number, packet.sequence};
}

// A dead worker's pushes to open steps never happened.
void ShareMachine::leave(int worker) {
  if (senders_.erase(worker) == 0) return;
  for (auto& [step, pushes] : open_)
    std::erase_if(pushes, [&](const SparsePush& push) { return push.worker == worker; });
  std::erase_if(open_, [](const auto& one) { return one.second.empty(); });
  value_.apply({.kind = ShareChange::Kind::leave, .worker = worker});
}

void ShareMachine::fetch(int from, const SparsePacket& packet) {
  if (packet.clock < 0 || packet.clock >= kArcsPerServer)
    return fail(fmt::format("member {} fetched rows of arc {}", from, packet.clock));
  const RowStore& arc = value_.arcs()[static_cast<std::size_t>(packet.clock)];
  const std::size_t first = std::min<std::size_t>(packet.sequence, arc.rows());
  const std::size_t count = std::min<std::size_t>(packet.count, arc.rows() - first);
  const std::size_t bytes = shape_->value_bytes() + shape_->state_bytes();
  IdList ids(count);
  for (std::size_t i = 0; i < count; ++i) ids[i] = arc.id_of(first + i);
  machine::Message message =
      encode_without_rows({.kind = SparseKind::fetched,
                           .share = share_,
                           .number = packet.number,
                           .sequence = arc.rows(),
                           .clock = value_.rule_steps(),
                           .count = count,
                           .ids = std::make_shared<const IdList>(std::move(ids))},
                          count * bytes);
  std::byte* row = message.payload.data() + message.payload.size() - count * bytes;
  for (std::size_t i = 0; i < count; ++i, row += bytes) std::memcpy(row, arc.at(first + i), bytes);
  actions_.emplace_back(machine::Send{from, std::move(message)});
}

void ShareMachine::store(int from, const SparsePacket& packet) {
  if (packet.clock < 0 || packet.clock > RuleState::kMostSteps)
    return fail(fmt::format("member {} stored rows of {} steps", from, packet.clock));
  ShareChange change{.kind = ShareChange::Kind::store, .rule_steps = packet.clock};
  change.pushes.push_back(
      {.worker = from, .rows = {packet.ids, {packet.rows.begin(), packet.rows.end()}}});
  value_.apply(std::move(change));
  send(from, {.kind = SparseKind::stored, .number = packet.number});
}

// --- from pushes to steps ------------------------------------------------------------------------

void ShareMachine::offer(SparsePush push) {
  Sender& sender = senders_.at(push.worker);
  const std::int64_t clock = value_.clock(), lead = shape_->pacing.lead;
  if (push.stamp <= sender.last_stamp)
    return fail(fmt::format("member {} pushed at clock {} after {}", push.worker, push.stamp,
                            sender.last_stamp));
  const bool by_steps = shape_->pacing.by_steps;
  if ((lead != kAnyLead && push.stamp > clock + lead) || (by_steps && push.stamp < clock))
    return fail(fmt::format("member {} pushed at clock {}, which is not within {} ahead of {}",
                            push.worker, push.stamp, lead, clock));
  sender.last_stamp = push.stamp;
  if (by_steps) {
    open_[push.stamp].push_back(std::move(push));
    most_open_ = std::max(most_open_, open_.size());
    return;
  }
  sender.decided = push.sequence;
  sender.is_owed = true;
  ShareChange change{.kind = ShareChange::Kind::taken, .worker = push.worker};
  change.pushes.push_back(std::move(push));
  value_.apply(std::move(change));
}

// A step closes when those that do not rest have pushed to it.
void ShareMachine::close_steps() {
  if (!shape_->pacing.by_steps) return;
  while (!failure_) {
    const auto found = open_.find(value_.clock());
    if (found == open_.end()) return;
    const auto has_pushed = [&](int member) {
      return std::ranges::find(found->second, member, &SparsePush::worker) != found->second.end();
    };
    for (const auto& [member, sender] : senders_)
      if (!value_.rests(member) && !has_pushed(member)) return;
    std::vector<SparsePush> pushes = std::move(open_.extract(found).mapped());
    std::ranges::sort(pushes, {}, &SparsePush::worker);
    for (const SparsePush& push : pushes) {
      senders_.at(push.worker).decided = push.sequence;
      senders_.at(push.worker).is_owed = true;
    }
    value_.apply(value_.step_of(std::move(pushes)));
  }
}

// A worker rests when all its pushes are here: nothing of it is to come.
void ShareMachine::let_rest() {
  if (failure_) return;
  for (const auto& [member, sender] : senders_) {
    if (!sender.rest || value_.rests(member) || sender.taken < sender.rest->own) continue;
    value_.apply({.kind = ShareChange::Kind::rest, .worker = member});
    close_steps();
  }
  if (failure_ || !value_.do_all_rest()) return;
  value_.apply({.kind = ShareChange::Kind::wake});
  for (auto& [member, sender] : senders_) {
    sender.last_rest = sender.rest->number;
    sender.rest.reset();
    send_rested(member);
  }
}

bool ShareMachine::lacks_push(int member, std::int64_t clock) const {
  return !value_.rests(member) && senders_.at(member).last_stamp < clock;
}

// The share owes a member rows, the word that all rest, or that a push is decided. Nobody else is to
// blame for pushes of the member's own that have not come.
void ShareMachine::ask(int from, const SparsePacket& packet) {
  const Sender& sender = senders_.at(from);
  SparsePacket answer{.kind = SparseKind::missing, .number = packet.number, .clock = -1};
  const bool rests = sender.rest && sender.taken >= sender.rest->own;
  std::int64_t least = sender.taken > sender.decided ? value_.clock() + 1 : kAnyClock;
  for (const auto& [number, pull] : sender.pulls)
    if (sender.taken >= pull.own) least = std::max(least, pull.least);
  if (!rests) answer.clock = least == kAnyClock ? 0 : least - 1;
  for (const auto& [member, other] : senders_)
    if (member != from &&
        (rests ? !value_.rests(member) : least != kAnyClock && lacks_push(member, least - 1)))
      answer.members.push_back(member);
  answer.count = answer.members.size();
  send(from, std::move(answer));
}

// --- what goes to workers ------------------------------------------------------------------------

void ShareMachine::send(int to, SparsePacket packet) {
  packet.share = share_;
  actions_.emplace_back(machine::Send{to, encode(packet)});
}

void ShareMachine::send_rows(int to, std::uint64_t number, const Pull& pull) {
  const std::size_t bytes = pull.ids->size() * shape_->value_bytes();
  machine::Message message = encode_without_rows({.kind = SparseKind::rows,
                                                  .share = share_,
                                                  .number = number,
                                                  .clock = value_.clock(),
                                                  .count = pull.ids->size()},
                                                 bytes);
  value_.read(*pull.ids, message.payload.data() + message.payload.size() - bytes);
  actions_.emplace_back(machine::Send{to, std::move(message)});
}

void ShareMachine::send_rested(int to) {
  send(to, {.kind = SparseKind::rested,
            .number = senders_.at(to).last_rest,
            .sequence = value_.rows(),
            .clock = value_.clock(),
            .count = static_cast<std::uint64_t>(value_.rule_steps())});
}

void ShareMachine::fail(std::string why) {
  if (failure_) return;
  failure_ = fmt::format("sparse table '{}': {}", shape_->spec.name, why);
  for (const auto& [member, sender] : senders_)
    send(member, {.kind = SparseKind::failed, .text = *failure_});
}

Actions ShareMachine::settle() {
  close_steps();
  let_rest();
  const std::int64_t clock = value_.clock();
  for (auto& [member, sender] : senders_) {
    if (failure_) break;
    if (std::exchange(sender.is_owed, false))
      send(member, {.kind = SparseKind::taken, .number = sender.decided, .clock = clock});
    std::erase_if(sender.pulls, [&](const auto& one) {
      const auto& [number, pull] = one;
      if (clock < pull.least || sender.taken < pull.own) return false;
      send_rows(member, number, pull);
      return true;
    });
  }
  Actions actions;
  actions.swap(actions_);
  return actions;
}

}  // namespace paceline::server
