#include "paceline/core/server/sparse/sparse_worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "paceline/core/base/check.h"

namespace paceline::server {

using machine::Actions;
using machine::Time;

namespace {

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
      servers_(shape, shape.servers(), member,
               {fmt::format("sparse table '{}'", shape.spec.name), "share", options.resend_after,
                timer}),
      sides_(shape.servers()) {}

// --- what the worker does ------------------------------------------------------------------------

Actions SparseWorker::start(Time now) {
  servers_.start(now);
  to_begin_ = sides_.size();
  for (std::size_t share = 0; share < sides_.size(); ++share) {
    sides_[share].is_beginning = true;
    send(share, {.kind = SparseKind::begin, .sequence = shape_.fingerprint()});
  }
  return servers_.take();
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
  return servers_.take();
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
  return servers_.take();
}

Actions SparseWorker::quiesce() {
  PACELINE_CHECK(has_begun() && has_quiesced(), "sparse table '{}' is quiesced twice at a time",
                 shape_.spec.name);
  ++rest_;
  to_rest_ = sides_.size();
  for (std::size_t share = 0; share < sides_.size(); ++share) {
    sides_[share].is_resting = true;
    send(share, {.kind = SparseKind::rest, .number = rest_, .sequence = pushes_});
  }
  return servers_.take();
}

Actions SparseWorker::leave() {
  to_leave_ = sides_.size();
  pulls_.clear();
  for (std::size_t share = 0; share < sides_.size(); ++share) {
    sides_[share].is_leaving = true;
    send(share, {.kind = SparseKind::leave, .sequence = pushes_});
  }
  return servers_.take();
}

Actions SparseWorker::exchange(SparsePacket packet) {
  PACELINE_CHECK(has_begun() && has_exchanged(),
                 "sparse table '{}' fetches or stores rows twice at a time", shape_.spec.name);
  packet.number = ++exchange_;
  exchanging_ = {packet.share, packet.kind == SparseKind::fetch, encode(packet)};
  send_exchange();
  return servers_.take();
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

Actions SparseWorker::on_packet(int from, const SparsePacket& packet, Time now) {
  const std::size_t share = packet.share;
  if (!servers_.may_tell(from, share)) return {};
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
      if (std::exchange(side.is_leaving, false) && --to_leave_ == 0)
        servers_.tell_done(encode(SparsePacket{.kind = SparseKind::done}));
      break;
    case SparseKind::missing:
      servers_.note_missing(share, packet.number, packet.members, undone_at(packet.clock));
      break;
    case SparseKind::failed:
      servers_.fail({packet.flags == SparsePacket::kIsLost ? Fault::peer_lost : Fault::mismatch,
                     packet.text,
                     {from}});
      break;
    case SparseKind::moved: servers_.note_moved(share, now); break;
    default: break;  // not for a worker
  }
  return servers_.take();
}

Actions SparseWorker::on_timer(Time now) {
  for (const std::size_t share : servers_.begin_timer()) send_again(share);
  servers_.end_timer(now);
  return servers_.take();
}

Actions SparseWorker::configure(const std::vector<Chain>& chains) {
  for (const std::size_t share : servers_.configure(chains)) send_again(share);
  return servers_.take();
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
  servers_.send_to_first(share, encode(packet));
}

void SparseWorker::send_exchange() {
  const std::vector<int>& servers = servers_.of(exchanging_->share);
  if (servers.empty()) return;
  servers_.send(exchanging_->reads ? servers.back() : servers.front(), exchanging_->message);
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
  if (found == sides_[share].pushes.end() || servers_.of(share).empty()) return;
  const Push& push = found->second;
  SparsePacket packet{.kind = SparseKind::push,
                      .number = number,
                      .clock = push.stamp,
                      .weight = push.weight,
                      .rate = push.rate,
                      .rows = push.rows};
  name_list(share, servers_.of(share).front(), *push.plan, in_full, packet);
  send(share, std::move(packet));
}

// The last server answers it.
void SparseWorker::send_pull(std::size_t share, std::uint64_t number, bool in_full) {
  const auto found = pulls_.find(number);
  const std::vector<int>& servers = servers_.of(share);
  if (found == pulls_.end() || found->second.rows[share] || servers.empty()) return;
  const Pull& pull = found->second;
  SparsePacket packet{.kind = SparseKind::pull,
                      .share = static_cast<std::uint32_t>(share),
                      .number = number,
                      .sequence = pull.own,
                      .clock = pull.least};
  name_list(share, servers.back(), *pull.plan, in_full, packet);
  servers_.send(servers.back(), encode(packet));
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
  servers_.begin_question();
  for (std::size_t share = 0; share < sides_.size(); ++share)
    if (servers_.note_asked(share, is_owed(share))) ask(share);
  return servers_.take();
}

// The first server has not heard of the pulls. One that is ahead of a push waits for that first.
void SparseWorker::ask(std::size_t share) {
  SparsePacket packet{.kind = SparseKind::ask,
                      .number = servers_.question(),
                      .clock = kAnyClock,
                      .count = sides_[share].answered};
  for (const auto& [number, pull] : pulls_) {
    if (pull.rows[share] || pull.own > pushes_) continue;
    packet.sequence = std::max(packet.sequence, pull.own);
    packet.clock = std::max(packet.clock, pull.least);
  }
  send(share, std::move(packet));
}

coordination::Awaited SparseWorker::awaited() const {
  coordination::Awaited awaited;
  for (std::size_t share = 0; share < sides_.size(); ++share)
    if (is_owed(share)) servers_.tell_awaited(share, awaited);
  return awaited;
}

}  // namespace paceline::server
