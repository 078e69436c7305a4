#include "paceline/core/server/sparse/sparse_worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>
#include <utility>

#include "paceline/core/base/check.h"

namespace paceline::server {

using machine::Actions;
using machine::Time;

namespace {

// A server that does not take a packet has not heard of the newest chain yet, or this worker.
constexpr std::chrono::milliseconds kAfterMovedAway(10);

// Names the thing that those have not done for whom a share waits.
std::string undone_at(std::int64_t clock) {
  if (clock == kLacksRests) return "come to rest";
  if (clock == kLacksChanges) return "kept the newest changes of its part";
  return fmt::format("pushed at clock {}", clock);
}

}  // namespace

SparseWorker::SparseWorker(const SparseShape& shape, int member, const SparseWorkerOptions& options,
                           std::uint32_t timer)
    : shape_(shape),
      member_(member),
      options_(options),
      timer_(timer),
      chains_(shape.chains()),
      sides_(shape.servers()) {}

// --- what the worker does ------------------------------------------------------------------------

Actions SparseWorker::take() {
  Actions actions;
  actions.swap(actions_);
  return actions;
}

Actions SparseWorker::start(Time now) {
  if (may_lose_messages()) actions_.emplace_back(machine::Arm{timer_, now + options_.resend_after});
  to_begin_ = sides_.size();
  for (std::size_t share = 0; share < sides_.size(); ++share) {
    sides_[share].is_beginning = true;
    send(share, {.kind = SparseKind::begin, .sequence = shape_.fingerprint()});
  }
  return take();
}

Actions SparseWorker::pull(SharedPlan plan, bool ahead) {
  PACELINE_CHECK(has_begun() && can_pull(),
                 "sparse table '{}' has {} pulls under way, and may have "
                 "{}: wait for one first",
                 shape_.spec.name, pulls_.size(), kWindow);
  Pull& pull = pulls_[++last_pull_];
  pull.plan = std::move(plan);
  pull.least = shape_.pacing.least_clock(clock_ + (ahead ? 1 : 0));
  pull.own = pushes_ + (ahead ? 1 : 0);
  pull.rows.resize(sides_.size());
  for (std::size_t share = 0; share < sides_.size(); ++share) send_pull(share, last_pull_, false);
  return take();
}

bool SparseWorker::may_push() const {
  if (shape_.pacing.lead == kAnyLead) return has_begun();
  return has_begun() && std::ranges::all_of(sides_, [this](const Side& side) {
           return side.clock >= clock_ - shape_.pacing.lead;
         });
}

bool SparseWorker::can_push() const {
  return may_push() && pushes_ - answered() < static_cast<std::uint64_t>(kWindow);
}

Actions SparseWorker::push(SharedPlan plan, std::vector<std::vector<std::byte>> rows, double weight,
                           double rate) {
  PACELINE_CHECK(can_push() && rows.size() == sides_.size(),
                 "a push of {} shares to sparse table '{}' of {}, ahead of its time", rows.size(),
                 shape_.spec.name, sides_.size());
  ++pushes_;
  for (std::size_t share = 0; share < sides_.size(); ++share) {
    sides_[share].pushes[pushes_] = {plan, std::move(rows[share]), clock_, weight, rate};
    send_push(share, pushes_, false);
  }
  ++clock_;
  return take();
}

Actions SparseWorker::rest() {
  PACELINE_CHECK(has_begun() && has_rested(), "sparse table '{}' rests twice at a time",
                 shape_.spec.name);
  ++rest_;
  to_rest_ = sides_.size();
  for (std::size_t share = 0; share < sides_.size(); ++share) {
    sides_[share].is_resting = true;
    send(share, {.kind = SparseKind::rest, .number = rest_, .sequence = pushes_});
  }
  return take();
}

Actions SparseWorker::leave() {
  to_leave_ = sides_.size();
  pulls_.clear();
  for (std::size_t share = 0; share < sides_.size(); ++share) {
    sides_[share].is_leaving = true;
    send(share, {.kind = SparseKind::leave, .sequence = pushes_});
  }
  return take();
}

Actions SparseWorker::exchange(SparsePacket packet) {
  PACELINE_CHECK(has_begun() && has_exchanged(),
                 "sparse table '{}' fetches or stores rows twice at a time", shape_.spec.name);
  packet.number = ++exchange_;
  exchanging_ = {packet.share, packet.kind == SparseKind::fetch, encode(packet)};
  send_exchange();
  return take();
}

std::uint64_t SparseWorker::answered() const {
  return std::ranges::min_element(sides_, {}, &Side::answered)->answered;
}

bool SparseWorker::has_pulled(std::uint64_t pull) const {
  const auto found = pulls_.find(pull);
  return found != pulls_.end() &&
         std::ranges::all_of(found->second.rows, [](const auto& one) { return one.has_value(); });
}

void SparseWorker::take_rows(std::uint64_t pull, MutableBytes rows) {
  const Pull taken = std::move(pulls_.extract(pull).mapped());
  const std::size_t bytes = shape_.value_bytes();
  for (std::size_t i = 0; i < taken.plan->places.size(); ++i) {
    const auto [share, number] = taken.plan->places[i];
    std::memcpy(rows.data() + i * bytes, taken.rows[share]->data() + number * bytes, bytes);
  }
}

SparseWorker::Stored SparseWorker::stored() const {
  Stored all;
  for (const Side& side : sides_) {
    all.rows += side.stored.rows;
    all.counted += side.stored.counted;
    all.evicted += side.stored.evicted;
  }
  return all;
}

// --- machine -------------------------------------------------------------------------------------

// A server that has left the chain since told nothing that was not committed.
bool SparseWorker::is_of_server(int from, std::size_t share) const {
  return shape_.spec.replicas > 1 ? from != member_ : from == shape_.members.servers[share];
}

Actions SparseWorker::on_packet(int from, const SparsePacket& packet, Time now) {
  const std::size_t share = packet.share;
  if (!is_of_server(from, share)) return {};
  Side& side = sides_[share];
  heard_ += packet.kind != SparseKind::missing && packet.kind != SparseKind::moved;
  switch (packet.kind) {
    case SparseKind::begun:
      side.clock = std::max(side.clock, packet.clock);
      if (std::exchange(side.is_beginning, false)) --to_begin_;
      break;
    case SparseKind::taken: answer(side, packet); break;
    case SparseKind::rows: rows(share, packet); break;
    case SparseKind::unknown:
      ++traffic_.unknown;
      packet.flags == 0 ? send_pull(share, packet.number, true)
                        : send_push(share, packet.number, true);
      break;
    case SparseKind::rested: rested(side, packet); break;
    case SparseKind::fetched:
    case SparseKind::stored: exchanged(share, packet); break;
    case SparseKind::left:
      side.pushes.clear();
      if (std::exchange(side.is_leaving, false) && --to_leave_ == 0) tell_done();
      break;
    case SparseKind::missing:
      if (side.is_asked && packet.number == question_) side.missing = packet;
      break;
    case SparseKind::failed:
      if (!failure_)
        failure_ =
            Failure{packet.flags == SparsePacket::kIsLost ? Fault::peer_lost : Fault::mismatch,
                    packet.text,
                    {from}};
      break;
    case SparseKind::moved: note_moved(side, now); break;
    default: break;  // not for a worker
  }
  return take();
}

void SparseWorker::note_moved(Side& side, Time now) {
  side.was_moved = true;
  if (!may_lose_messages()) actions_.emplace_back(machine::Arm{timer_, now + kAfterMovedAway});
}

Actions SparseWorker::on_timer(Time now) {
  for (std::size_t share = 0; share < sides_.size(); ++share)
    if (std::exchange(sides_[share].was_moved, false) || may_lose_messages()) send_again(share);
  if (may_lose_messages() && is_done_) tell_done();
  if (may_lose_messages()) actions_.emplace_back(machine::Arm{timer_, now + options_.resend_after});
  return take();
}

// Servers that come later hear of it from these.
void SparseWorker::tell_done() {
  is_done_ = true;
  if (shape_.spec.replicas == 1) return;
  std::set<int> servers;
  for (const Chain& one : chains_) servers.insert(one.servers.begin(), one.servers.end());
  for (const int server : servers)
    actions_.emplace_back(machine::Send{server, encode(SparsePacket{.kind = SparseKind::done})});
}

Actions SparseWorker::configure(const std::vector<Chain>& chains) {
  for (std::size_t i = 0; i < std::min(chains.size(), chains_.size()); ++i) {
    if (chains[i].generation <= chains_[i].generation) continue;
    const bool is_same = chains_[i].servers == chains[i].servers;
    chains_[i] = chains[i];
    for (std::size_t share = 0; share < sides_.size() && !is_same; ++share)
      if (shape_.chain_of(share) == i) chains_[i].servers.empty() ? lose(share) : send_again(share);
  }
  return take();
}

void SparseWorker::lose(std::size_t share) {
  if (failure_) return;
  const int first = shape_.members.servers[share];
  failure_ = Failure{Fault::peer_lost,
                     fmt::format("all {} servers that kept share {} of sparse table '{}' have "
                                 "ended; the first of them was member {}",
                                 shape_.spec.replicas, share, shape_.spec.name, first),
                     {first}};
}

Actions SparseWorker::on_lost(int peer) {
  if (shape_.spec.replicas > 1) return {};  // the chains tell
  if (!failure_ && std::ranges::find(shape_.members.servers, peer) != shape_.members.servers.end())
    failure_ = Failure{Fault::peer_lost,
                       fmt::format("member {}, a server of sparse table '{}', has ended while "
                                   "worker {} uses the table",
                                   peer, shape_.spec.name, member_),
                       {peer}};
  return {};
}

void SparseWorker::answer(Side& side, const SparsePacket& packet) {
  side.clock = std::max(side.clock, packet.clock);
  side.answered = std::max(side.answered, std::min(packet.number, pushes_));
  side.pushes.erase(side.pushes.begin(), side.pushes.upper_bound(side.answered));
}

void SparseWorker::rows(std::size_t share, const SparsePacket& packet) {
  sides_[share].clock = std::max(sides_[share].clock, packet.clock);
  const auto found = pulls_.find(packet.number);
  if (found == pulls_.end()) return;
  Pull& pull = found->second;
  if (pull.rows[share] || packet.count != pull.plan->shares[share].ids->size()) return;
  pull.rows[share].emplace(packet.rows.begin(), packet.rows.end());
}

void SparseWorker::rested(Side& side, const SparsePacket& packet) {
  if (!side.is_resting || packet.number != rest_) return;
  side.is_resting = false;
  side.stored = {packet.sequence, packet.counted, packet.evicted};
  side.clock = std::max(side.clock, packet.clock);
  clock_ = std::max(clock_, packet.clock);
  --to_rest_;
}

void SparseWorker::exchanged(std::size_t share, const SparsePacket& packet) {
  if (!exchanging_ || exchanging_->share != share || packet.number != exchange_) return;
  exchanging_.reset();
  if (packet.kind == SparseKind::stored) return;
  fetched_ = {*packet.ids, {packet.rows.begin(), packet.rows.end()}, packet.sequence, packet.clock};
}

// --- what goes to servers ------------------------------------------------------------------------

void SparseWorker::send(std::size_t share, SparsePacket packet) {
  packet.share = static_cast<std::uint32_t>(share);
  if (!chain(share).servers.empty())
    actions_.emplace_back(machine::Send{chain(share).servers.front(), encode(packet)});
}

void SparseWorker::send_exchange() {
  const std::vector<int>& servers = chain(exchanging_->share).servers;
  if (servers.empty()) return;
  actions_.emplace_back(
      machine::Send{exchanging_->reads ? servers.back() : servers.front(), exchanging_->message});
}

// A list that the server knows is named by its hash. An empty one costs nothing.
void SparseWorker::name_list(std::size_t share, int server, const IdPlan& plan, bool in_full,
                             SparsePacket& packet) {
  const auto& [ids, key] = plan.shares[share];
  packet.list = key.hash;
  packet.count = key.count;
  ListCache& lists = sides_[share].lists[server];
  if (!in_full && lists.find(key)) {
    ++traffic_.hashes;
    traffic_.ids_saved += key.count;
    return;
  }
  ++traffic_.lists;
  lists.put(key, ids);
  packet.ids = ids;
}

void SparseWorker::send_push(std::size_t share, std::uint64_t number, bool in_full) {
  const auto found = sides_[share].pushes.find(number);
  if (found == sides_[share].pushes.end() || chain(share).servers.empty()) return;
  const Push& push = found->second;
  SparsePacket packet{.kind = SparseKind::push,
                      .number = number,
                      .clock = push.stamp,
                      .weight = push.weight,
                      .rate = push.rate,
                      .rows = push.rows};
  name_list(share, chain(share).servers.front(), *push.plan, in_full, packet);
  send(share, std::move(packet));
}

// The last server answers it.
void SparseWorker::send_pull(std::size_t share, std::uint64_t number, bool in_full) {
  const auto found = pulls_.find(number);
  const std::vector<int>& servers = chain(share).servers;
  if (found == pulls_.end() || found->second.rows[share] || servers.empty()) return;
  const Pull& pull = found->second;
  SparsePacket packet{.kind = SparseKind::pull,
                      .share = static_cast<std::uint32_t>(share),
                      .number = number,
                      .sequence = pull.own,
                      .clock = pull.least};
  name_list(share, servers.back(), *pull.plan, in_full, packet);
  actions_.emplace_back(machine::Send{servers.back(), encode(packet)});
}

void SparseWorker::send_again(std::size_t share) {
  const Side& side = sides_[share];
  if (side.is_beginning) send(share, {.kind = SparseKind::begin, .sequence = shape_.fingerprint()});
  for (const auto& [number, push] : side.pushes) send_push(share, number, false);
  for (const auto& [number, pull] : pulls_) send_pull(share, number, false);
  if (side.is_resting)
    send(share, {.kind = SparseKind::rest, .number = rest_, .sequence = pushes_});
  if (side.is_leaving) send(share, {.kind = SparseKind::leave, .sequence = pushes_});
  if (exchanging_ && exchanging_->share == share) send_exchange();
}

// --- for whom it waits ---------------------------------------------------------------------------

bool SparseWorker::is_owed(std::size_t share) const {
  const Side& side = sides_[share];
  return side.is_beginning || side.is_resting || side.is_leaving || pushes_ > side.answered ||
         (exchanging_ && exchanging_->share == share) ||
         std::ranges::any_of(pulls_, [&](const auto& one) { return !one.second.rows[share]; });
}

Actions SparseWorker::ask() {
  ++question_;
  for (std::size_t share = 0; share < sides_.size(); ++share) {
    Side& side = sides_[share];
    side.missing.reset();
    side.is_asked = is_owed(share);
    if (side.is_asked) ask(share);
  }
  return take();
}

// The first server has not heard of the pulls. One that is ahead of a push waits for that first.
void SparseWorker::ask(std::size_t share) {
  SparsePacket packet{.kind = SparseKind::ask,
                      .number = question_,
                      .clock = kAnyClock,
                      .count = sides_[share].answered};
  for (const auto& [number, pull] : pulls_) {
    if (pull.rows[share] || pull.own > pushes_) continue;
    packet.sequence = std::max(packet.sequence, pull.own);
    packet.clock = std::max(packet.clock, pull.least);
  }
  send(share, std::move(packet));
}

bool SparseWorker::has_heard() const {
  return std::ranges::none_of(
      sides_, [](const Side& side) { return side.is_asked && !side.missing.has_value(); });
}

coordination::Awaited SparseWorker::awaited() const {
  coordination::Awaited awaited;
  for (std::size_t share = 0; share < sides_.size(); ++share) {
    const Side& side = sides_[share];
    if (!side.is_asked || !is_owed(share)) continue;
    const std::vector<int>& servers = chain(share).servers;
    const int first = servers.empty() ? shape_.members.servers[share] : servers.front();
    const int last = servers.empty() ? first : servers.back();
    if (!side.missing) awaited.is_silent(first);
    else if (side.missing->members.empty() && last != first) awaited.is_silent(last);
    else if (side.missing->members.empty()) awaited.answers(first);
    else
      for (const int member : side.missing->members)
        awaited.lacks(member, undone_at(side.missing->clock));
  }
  return awaited;
}

}  // namespace paceline::server
