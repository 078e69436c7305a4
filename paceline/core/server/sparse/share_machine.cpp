#include "paceline/core/server/sparse/share_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <set>
#include <utility>

namespace paceline::server {

using machine::Actions;
using machine::Time;

ShareMachine::ShareMachine(const SparseShape& shape, std::size_t share, int own, const Chain& chain,
                           bool is_fresh)
    : shape_(&shape),
      share_(static_cast<std::uint32_t>(share)),
      chain_(shape, share, own, chain, is_fresh) {
  if (chain_.is_head()) begin_as_head();
}

// All that has been decided is answered again when it is committed: the workers may not know it.
void ShareMachine::begin_as_head() {
  senders_.clear();
  for (const auto& [worker, member] : members()) {
    Sender& sender = senders_[worker];
    sender.taken = sender.committed = member.decided;
    sender.last_stamp = member.last_stamp;
    sender.is_owed = member.decided > 0;
  }
  open_.clear();
  clocks_.clear();
  begun_by_ = woken_by_ = state().top();
  for (const int worker : std::set<int>(lost_)) leave(worker);
}

Actions ShareMachine::configure(const Chain& chain, Time now) {
  const bool was_head = chain_.is_head();
  chain_.configure(chain);
  if (chain_.is_head() && !was_head) begin_as_head();
  if (!chain_.is_head()) {
    senders_.clear();
    leaving_.clear();
  }
  if (!chain_.is_tail()) readers_.clear();
  if (chain_.has_lost_state()) fail_as_lost();
  return settle(now);
}

Actions ShareMachine::say_again(Time now) {
  chain_.say_again();
  return settle(now);
}

Result<Actions> ShareMachine::on_chain_packet(int from, ShareChainPacket packet, Time now) {
  const bool was_head = chain_.is_head();
  if (const auto taken = chain_.on_packet(from, std::move(packet)); !taken) return taken.error();
  if (chain_.is_head() && !was_head) begin_as_head();
  const auto has_left = [this](const auto& one) { return !members().contains(one.first); };
  std::erase_if(readers_, has_left);
  std::erase_if(lists_, has_left);
  return settle(now);
}

// The last server shows rows, the first one does all else.
bool ShareMachine::takes(const SparsePacket& packet) const {
  const bool reads = packet.kind == SparseKind::pull || packet.kind == SparseKind::fetch;
  return reads ? chain_.is_tail() : chain_.is_head();
}

Actions ShareMachine::on_packet(int from, SparsePacket packet, Time now) {
  try {
    if (chain_.has_lost_state() && packet.kind == SparseKind::leave)
      send(from, {.kind = SparseKind::left});
    else if (chain_.has_lost_state()) send_failure(from);
    else if (takes(packet)) hear(from, packet);
    else send(from, {.kind = SparseKind::moved});
    return settle(now);
  } catch (const std::bad_alloc&) {
    fail("its server has no memory for more rows: start more servers");
    return std::exchange(actions_, {});
  }
}

void ShareMachine::hear(int from, const SparsePacket& packet) {
  if (packet.kind == SparseKind::leave) {
    const auto sender = senders_.find(from);
    if (sender != senders_.end()) sender->second.leaves_behind = packet.sequence;
    else end(from);
  } else if (failure_) {
    send_failure(from);
  } else if (state().has(from)) {
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
  let_leave();
}

void ShareMachine::end(int worker) {
  leave(worker);
  leaving_.try_emplace(worker, state().top());
}

// Its last pushes may come behind it: another server took the first of them, or this one asked for
// their ids.
void ShareMachine::let_leave() {
  std::set<int> those;
  for (const auto& [worker, sender] : senders_)
    if (sender.leaves_behind && (failure_ || sender.taken >= *sender.leaves_behind))
      those.insert(worker);
  for (const int worker : those) end(worker);
}

Actions ShareMachine::on_lost(int peer, Time now) {
  lost_.insert(peer);
  if (chain_.is_head()) leave(peer);
  readers_.erase(peer);
  lists_.erase(peer);
  return settle(now);
}

// --- what comes from workers ---------------------------------------------------------------------

void ShareMachine::begin(int from, const SparsePacket& packet) {
  if (packet.sequence != shape_->fingerprint())
    return fail(
        fmt::format("member {} means another table by this name than its server: its width, "
                    "dtype, synchrony, rule, seed, spread, admit_after, evict_after or members "
                    "differ",
                    from));
  senders_.at(from).is_owed_begun = true;
}

SharedIds ShareMachine::ids_of(int from, const SparsePacket& packet) {
  ListCache& lists = lists_[from];
  if (packet.ids) {
    lists.put(packet.key(), packet.ids);
    return packet.ids;
  }
  if (SharedIds known = lists.find(packet.key())) return known;
  send(from, {.kind = SparseKind::unknown,
              .flags = packet.kind == SparseKind::push ? 1u : 0u,
              .number = packet.number});
  return nullptr;
}

std::string ShareMachine::complaint(int from, const SparsePacket& packet) const {
  if (packet.number > members().at(from).decided + kWindow)
    return fmt::format("is more than {} ahead of its last answer", kWindow);
  if (packet.clock < 0 || packet.clock > RuleState::kMostSteps) return "has no clock";
  return packet.rows.size() == packet.count * shape_->value_bytes()
             ? ""
             : fmt::format("has {} bytes for {} rows", packet.rows.size(), packet.count);
}

void ShareMachine::push(int from, const SparsePacket& packet) {
  Sender& sender = senders_.at(from);
  if (packet.number <= sender.taken) {
    sender.is_owed |= packet.number <= sender.committed;  // a repeat
    return;
  }
  // Workers keep what they were not answered.
  if (shape_->spec.replicas > 1 && packet.number > members().at(from).decided + kWindow)
    return fail_as_lost();
  if (const std::string why = complaint(from, packet); !why.empty())
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
  SharedIds ids = ids_of(from, packet);
  if (!ids) return;
  auto& pulls = readers_[from].pulls;
  pulls.insert_or_assign(packet.number, Pull{packet.clock, packet.sequence, std::move(ids)});
  if (pulls.size() > kWindow) pulls.erase(pulls.begin());
  most_held_ = std::max(most_held_, pulls.size());
}

// A worker that has not heard that all have rested asks again: messages, or the server, may be lost.
void ShareMachine::rest(int from, const SparsePacket& packet) {
  const ShareState::Member& own = members().at(from);
  Sender& sender = senders_.at(from);
  if (packet.number <= own.last_rest) sender.is_owed_rested = true;
  else if (own.resting == 0) sender.rest = {packet.number, packet.sequence};
}

// A dead worker's pushes to open steps never happened.
void ShareMachine::leave(int worker) {
  senders_.erase(worker);
  readers_.erase(worker);
  lists_.erase(worker);
  if (!state().has(worker)) return;
  for (auto& [step, pushes] : open_)
    std::erase_if(pushes, [&](const SparsePush& push) { return push.worker == worker; });
  std::erase_if(open_, [](const auto& one) { return one.second.empty(); });
  enter({.kind = ShareChange::Kind::leave, .worker = worker});
}

void ShareMachine::fetch(int from, const SparsePacket& packet) {
  if (packet.clock < 0 || packet.clock >= kArcsPerServer)
    return fail(fmt::format("member {} fetched rows of arc {}", from, packet.clock));
  readers_[from].fetch = packet;
}

void ShareMachine::store(int from, const SparsePacket& packet) {
  if (packet.clock < 0 || packet.clock > RuleState::kMostSteps)
    return fail(fmt::format("member {} stored rows of {} steps", from, packet.clock));
  if (packet.number > members().at(from).stored) {
    ShareChange change{.kind = ShareChange::Kind::store,
                       .worker = from,
                       .rule_steps = packet.clock,
                       .number = packet.number};
    change.pushes.push_back(
        {.worker = from, .rows = {packet.ids, {packet.rows.begin(), packet.rows.end()}}});
    enter(std::move(change));
  }
  senders_.at(from).stored = {state().top(), packet.number};
}

// --- from pushes to changes ----------------------------------------------------------------------

void ShareMachine::enter(ShareChange change) {
  const std::vector<ShareChange::Decided> decided = change.decided;
  chain_.enter(std::move(change));
  for (const ShareChange::Decided& push : decided)
    senders_.at(push.worker).decisions.push_back({state().top(), push.sequence});
}

void ShareMachine::offer(SparsePush push) {
  Sender& sender = senders_.at(push.worker);
  const std::int64_t clock = value().clock(), lead = shape_->pacing.lead;
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
  ShareChange change{.kind = ShareChange::Kind::taken,
                     .worker = push.worker,
                     .decided = {{push.worker, push.sequence, push.stamp}}};
  change.pushes.push_back(std::move(push));
  enter(std::move(change));
}

// A step closes when those that do not rest have pushed to it.
void ShareMachine::close_steps() {
  if (!shape_->pacing.by_steps) return;
  while (!failure_) {
    const auto found = open_.find(value().clock());
    if (found == open_.end()) return;
    const auto has_pushed = [&](int member) {
      return std::ranges::find(found->second, member, &SparsePush::worker) != found->second.end();
    };
    for (const auto& [member, sender] : senders_)
      if (!value().rests(member) && !has_pushed(member)) return;
    std::vector<SparsePush> pushes = std::move(open_.extract(found).mapped());
    std::ranges::sort(pushes, {}, &SparsePush::worker);
    std::vector<ShareChange::Decided> decided;
    for (const SparsePush& push : pushes)
      decided.push_back({push.worker, push.sequence, push.stamp});
    ShareChange change = value().step_of(std::move(pushes));
    change.decided = std::move(decided);
    enter(std::move(change));
  }
}

// A worker rests when all its pushes are decided: nothing of it is to come. Those that rest let
// steps close, which decides pushes of others.
void ShareMachine::let_rest() {
  const auto enter_rests = [this] {
    bool are_more = false;
    for (auto& [member, sender] : senders_) {
      if (!sender.rest || members().at(member).decided < sender.rest->own) continue;
      enter({.kind = ShareChange::Kind::rest, .worker = member, .number = sender.rest->number});
      sender.rest.reset();
      are_more = true;
    }
    return are_more;
  };
  while (!failure_ && enter_rests()) close_steps();
  if (failure_ || !value().do_all_rest()) return;
  enter({.kind = ShareChange::Kind::wake});
  woken_by_ = state().top();
  for (auto& [member, sender] : senders_) sender.is_owed_rested = true;
}

bool ShareMachine::lacks_push(int member, std::int64_t clock) const {
  return !value().rests(member) && senders_.at(member).last_stamp < clock;
}

// The share owes a member rows, the word that all rest, or that a push is decided. Nobody else is to
// blame for pushes of the member's own that have not come.
void ShareMachine::ask(int from, const SparsePacket& packet) {
  const Sender& sender = senders_.at(from);
  if (packet.count > members().at(from).decided) return fail_as_lost();
  SparsePacket answer{.kind = SparseKind::missing, .number = packet.number, .clock = kLacksRests};
  const bool rests = value().rests(from) || (sender.rest && sender.taken >= sender.rest->own);
  const bool has_open = sender.taken > members().at(from).decided;
  std::int64_t least = has_open ? value().clock() + 1 : kAnyClock;
  if (sender.taken >= packet.sequence) least = std::max(least, packet.clock);
  if (!rests) answer.clock = least == kAnyClock ? 0 : least - 1;
  for (const auto& [member, other] : senders_)
    if (member != from &&
        (rests ? !value().rests(member) : least != kAnyClock && lacks_push(member, least - 1)))
      answer.members.push_back(member);
  if (answer.members.empty() && chain_.commit() < state().top()) {
    const auto& servers = chain_.chain().servers;
    answer.clock = kLacksChanges;
    answer.members.assign(std::next(servers.begin()), servers.end());
  }
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
                                                  .clock = value().clock(),
                                                  .count = pull.ids->size()},
                                                 bytes);
  value().read(*pull.ids, message.payload.data() + message.payload.size() - bytes);
  actions_.emplace_back(machine::Send{to, std::move(message)});
}

void ShareMachine::send_fetched(int to, const SparsePacket& packet) {
  const RowStore& arc = value().arcs()[static_cast<std::size_t>(packet.clock)];
  const std::size_t first = std::min<std::size_t>(packet.sequence, arc.rows());
  const std::size_t count = std::min<std::size_t>(packet.count, arc.rows() - first);
  const std::size_t bytes = shape_->value_bytes() + shape_->state_bytes();
  IdList ids;
  std::vector<const std::byte*> rows;
  for (std::size_t i = first; i < first + count; ++i) {
    if (value().is_past(arc.at(i))) continue;
    ids.push_back(arc.id_of(i));
    rows.push_back(arc.at(i));
  }
  machine::Message message =
      encode_without_rows({.kind = SparseKind::fetched,
                           .share = share_,
                           .number = packet.number,
                           .sequence = arc.rows(),
                           .clock = value().rule_steps(),
                           .count = rows.size(),
                           .ids = std::make_shared<const IdList>(std::move(ids))},
                          rows.size() * bytes);
  std::byte* to_row = message.payload.data() + message.payload.size() - rows.size() * bytes;
  for (const std::byte* const row : rows)
    std::memcpy(std::exchange(to_row, to_row + bytes), row, bytes);
  actions_.emplace_back(machine::Send{to, std::move(message)});
}

void ShareMachine::send_rested(int to) {
  send(to, {.kind = SparseKind::rested,
            .number = members().at(to).last_rest,
            .sequence = value().rows(),
            .clock = value().clock(),
            .count = static_cast<std::uint64_t>(value().rule_steps()),
            .counted = value().counted(),
            .evicted = value().evicted()});
}

void ShareMachine::fail(std::string why) {
  if (failure_) return;
  failure_ = fmt::format("sparse table '{}': {}", shape_->spec.name, why);
  for (const auto& [member, one] : members()) send_failure(member);
}

void ShareMachine::send_failure(int to) {
  send(to, {.kind = SparseKind::failed,
            .flags = is_lost_ ? SparsePacket::kIsLost : 0,
            .text = *failure_});
}

// Servers that had it have ended, and this one does not know all that workers were told.
void ShareMachine::fail_as_lost() {
  is_lost_ = true;
  fail(
      fmt::format("the servers that kept its share {} have ended, and no other had all of it yet: "
                  "go on from a checkpoint (--max-restarts)",
                  share_));
}

Actions ShareMachine::settle(Time now) {
  if (chain_.is_head()) {
    close_steps();
    let_rest();
  }
  append(actions_, chain_.flow());
  note_committed();
  if (!may_answer_ || may_answer_(now)) {
    if (chain_.is_head()) answer_members();
    if (chain_.is_tail() && chain_.is_ready() && !failure_) answer_pulls();
  }
  return std::exchange(actions_, {});
}

void ShareMachine::note_committed() {
  const std::uint64_t commit = chain_.commit(), top = state().top();
  if (commit == top) {
    clock_ = value().clock();
    return clocks_.clear();
  }
  if (clocks_.empty() || clocks_.back().change < top) clocks_.push_back({top, value().clock()});
  for (; !clocks_.empty() && clocks_.front().change <= commit; clocks_.pop_front())
    clock_ = clocks_.front().clock;
}

void ShareMachine::answer_members() {
  const std::uint64_t commit = chain_.commit();
  std::erase_if(leaving_, [&](const auto& one) {
    if (one.second > commit) return false;
    send(one.first, {.kind = SparseKind::left});
    return true;
  });
  if (failure_ || commit < begun_by_) return;
  for (auto& [member, sender] : senders_) {
    for (; !sender.decisions.empty() && sender.decisions.front().change <= commit;
         sender.decisions.pop_front()) {
      sender.committed = sender.decisions.front().number;
      sender.is_owed = true;
    }
    if (std::exchange(sender.is_owed_begun, false))
      send(member, {.kind = SparseKind::begun, .clock = clock_});
    if (std::exchange(sender.is_owed, false))
      send(member, {.kind = SparseKind::taken, .number = sender.committed, .clock = clock_});
    if (woken_by_ <= commit && std::exchange(sender.is_owed_rested, false)) send_rested(member);
    if (!sender.stored || sender.stored->change > commit) continue;
    send(member, {.kind = SparseKind::stored, .number = sender.stored->number});
    sender.stored.reset();
  }
}

void ShareMachine::answer_pulls() {
  const std::int64_t clock = value().clock();
  for (auto& [member, reader] : readers_) {
    const auto found = members().find(member);
    if (found == members().end()) continue;
    std::erase_if(reader.pulls, [&](const auto& one) {
      const auto& [number, pull] = one;
      if (clock < pull.least || (!shape_->pacing.by_steps && found->second.decided < pull.own))
        return false;
      send_rows(member, number, pull);
      return true;
    });
    if (reader.fetch) send_fetched(member, *reader.fetch);
    reader.fetch.reset();
  }
}

}  // namespace paceline::server
