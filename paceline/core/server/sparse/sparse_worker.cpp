#include "paceline/core/server/sparse/sparse_worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "paceline/core/base/check.h"

namespace paceline::server {

using machine::Actions;
using machine::Time;

SparseWorker::SparseWorker(const SparseShape& shape, int member, const SparseWorkerOptions& options,
                           std::uint32_t timer)
    : shape_(shape), member_(member), options_(options), timer_(timer), sides_(shape.servers()) {}

// --- what the worker does ------------------------------------------------------------------------

Actions SparseWorker::take() {
  Actions actions;
  actions.swap(actions_);
  return actions;
}

Actions SparseWorker::start(Time now) {
  if (options_.resend_after.count() > 0)
    actions_.emplace_back(machine::Arm{timer_, now + options_.resend_after});
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
    sides_[share].pushes.clear();
    send(share, {.kind = SparseKind::leave});
  }
  return take();
}

Actions SparseWorker::exchange(SparsePacket packet) {
  PACELINE_CHECK(has_begun() && has_exchanged(),
                 "sparse table '{}' fetches or stores rows twice at a time", shape_.spec.name);
  packet.number = ++exchange_;
  exchanging_ = {packet.share, encode(packet)};
  actions_.emplace_back(machine::Send{shape_.members.servers[packet.share], exchanging_->message});
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

std::uint64_t SparseWorker::rows_stored() const {
  std::uint64_t all = 0;
  for (const Side& side : sides_) all += side.rows;
  return all;
}

// --- machine -------------------------------------------------------------------------------------

Actions SparseWorker::on_packet(int from, const SparsePacket& packet) {
  const std::size_t share = packet.share;
  if (from != shape_.members.servers[share]) return {};
  Side& side = sides_[share];
  heard_ += packet.kind == SparseKind::missing ? 0 : 1;
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
      if (std::exchange(side.is_leaving, false)) --to_leave_;
      break;
    case SparseKind::missing:
      if (side.is_asked && packet.number == question_) side.missing = packet;
      break;
    case SparseKind::failed:
      if (!failure_) failure_ = Failure{Fault::mismatch, packet.text, {from}};
      break;
    default: break;  // not for a worker
  }
  return take();
}

Actions SparseWorker::on_timer(Time now) {
  for (std::size_t share = 0; share < sides_.size(); ++share) send_again(share);
  actions_.emplace_back(machine::Arm{timer_, now + options_.resend_after});
  return take();
}

Actions SparseWorker::on_lost(int peer) {
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
  side.rows = packet.sequence;
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
  actions_.emplace_back(machine::Send{shape_.members.servers[share], encode(packet)});
}

// A list that the share knows is named by its hash. An empty one costs nothing.
void SparseWorker::name_list(std::size_t share, const IdPlan& plan, bool in_full,
                             SparsePacket& packet) {
  const auto& [ids, key] = plan.shares[share];
  packet.list = key.hash;
  packet.count = key.count;
  ListCache& lists = sides_[share].lists;
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
  if (found == sides_[share].pushes.end()) return;
  const Push& push = found->second;
  SparsePacket packet{.kind = SparseKind::push,
                      .number = number,
                      .clock = push.stamp,
                      .weight = push.weight,
                      .rate = push.rate,
                      .rows = push.rows};
  name_list(share, *push.plan, in_full, packet);
  send(share, std::move(packet));
}

void SparseWorker::send_pull(std::size_t share, std::uint64_t number, bool in_full) {
  const auto found = pulls_.find(number);
  if (found == pulls_.end() || found->second.rows[share]) return;
  const Pull& pull = found->second;
  SparsePacket packet{
      .kind = SparseKind::pull, .number = number, .sequence = pull.own, .clock = pull.least};
  name_list(share, *pull.plan, in_full, packet);
  send(share, std::move(packet));
}

void SparseWorker::send_again(std::size_t share) {
  const Side& side = sides_[share];
  if (side.is_beginning) send(share, {.kind = SparseKind::begin, .sequence = shape_.fingerprint()});
  for (const auto& [number, push] : side.pushes) send_push(share, number, false);
  for (const auto& [number, pull] : pulls_) send_pull(share, number, false);
  if (side.is_resting)
    send(share, {.kind = SparseKind::rest, .number = rest_, .sequence = pushes_});
  if (side.is_leaving) send(share, {.kind = SparseKind::leave});
  if (exchanging_ && exchanging_->share == share)
    actions_.emplace_back(machine::Send{shape_.members.servers[share], exchanging_->message});
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
    if (side.is_asked) send(share, {.kind = SparseKind::ask, .number = question_});
  }
  return take();
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
    const int server = shape_.members.servers[share];
    if (!side.missing) awaited.is_silent(server);
    else if (side.missing->members.empty()) awaited.answers(server);
    else
      for (const int member : side.missing->members)
        awaited.lacks(member, side.missing->clock < 0
                                  ? "come to rest"
                                  : fmt::format("pushed at clock {}", side.missing->clock));
  }
  return awaited;
}

}  // namespace paceline::server
