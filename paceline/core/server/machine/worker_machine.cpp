#include "paceline/core/server/machine/worker_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "paceline/core/base/check.h"
#include "paceline/core/base/reduce.h"

namespace paceline::server {

using machine::Actions;
using machine::Message;
using machine::Time;

namespace {

// A server that does not take a packet has not heard of the newest chain yet, or this worker.
constexpr std::chrono::milliseconds kAfterMoved(10);

}  // namespace

WorkerMachine::WorkerMachine(const TableShape& shape, int member, const WorkerOptions& options,
                             std::uint32_t timer)
    : shape_(shape),
      member_(member),
      options_(options),
      timer_(timer),
      chains_(shape.chains()),
      sides_(shape.ranges.size()),
      values_(shape.spec.elements * shape.element_bytes()),
      may_push_(!options.is_newcomer) {}

// --- what the worker does ------------------------------------------------------------------------

Actions WorkerMachine::take() {
  Actions actions;
  actions.swap(actions_);
  return actions;
}

Actions WorkerMachine::start(Time now) {
  if (may_lose_messages()) actions_.emplace_back(machine::Arm{timer_, now + options_.resend_after});
  if (!options_.is_newcomer) return take();
  to_join_ = sides_.size();
  for (std::size_t range = 0; range < sides_.size(); ++range) {
    sides_[range].joining = Joining::asks;
    tell_join(range);
  }
  return take();
}

Actions WorkerMachine::assign(Bytes values, const RuleState& state) {
  PACELINE_CHECK(values.empty() || values.size() == values_.size(),
                 "{} bytes of first values for {} elements of table '{}'", values.size(),
                 shape_.spec.elements, shape_.spec.name);
  to_assign_ = sides_.size();
  for (std::size_t range = 0; range < sides_.size(); ++range) {
    Packet packet{.kind = PacketKind::assign,
                  .range = static_cast<std::uint32_t>(range),
                  .sequence = shape_.fingerprint()};
    std::vector<Bytes> pieces;
    if (!values.empty()) {
      pieces = shape_.pieces(range, values);
      for (const auto& slot : state.slots)
        for (const Bytes piece : shape_.pieces(range, slot)) pieces.push_back(piece);
      packet.count = shape_.ranges[range].elements * (1 + state.slots.size());
      packet.clock = state.steps;
    }
    sides_[range].assigning = encode(packet, pieces);
    send_to_head(range, *sides_[range].assigning);
  }
  return take();
}

bool WorkerMachine::can_push() const {
  return is_ready() && !is_pulling_ && may_push_ &&
         std::ranges::all_of(sides_,
                             [](const Side& one) { return one.pushes - one.answered < kWindow; });
}

Actions WorkerMachine::push(Bytes values, double weight, const std::vector<double>& settings) {
  PACELINE_CHECK(can_push() && values.size() == values_.size(),
                 "a push of {} bytes to table '{}' of {} bytes, which must be pulled between two "
                 "pushes",
                 values.size(), shape_.spec.name, values_.size());
  for (std::size_t range = 0; range < sides_.size(); ++range) {
    Side& side = sides_[range];
    Packet packet{.kind = PacketKind::push,
                  .range = static_cast<std::uint32_t>(range),
                  .flags = static_cast<std::uint32_t>(settings.size()),
                  .sequence = ++side.pushes,
                  .clock = clock_,
                  .count = shape_.ranges[range].elements,
                  .weight = weight,
                  .read = side.row_version,
                  .settings = settings};
    Message message = encode(packet, shape_.pieces(range, values));
    if (shape_.pacing.worker_updates)
      side.differences.emplace_back(packet.sequence, shape_.gathered(range, values));
    if (!forgets()) side.unanswered.emplace(side.pushes, message);
    send_to_head(range, std::move(message));
  }
  has_pushed_ = true;
  may_push_ = !shape_.pacing.reads_between_pushes();
  if (!shape_.pacing.skips_steps()) ++clock_;
  return take();
}

Actions WorkerMachine::pull() {
  PACELINE_CHECK(is_ready() && !is_pulling_, "table '{}' is pulled twice at a time",
                 shape_.spec.name);
  is_pulling_ = true;
  ++pull_;
  rows_missing_ = sides_.size();
  rounds_.clear();
  for (std::size_t range = 0; range < sides_.size(); ++range) {
    sides_[range].awaits_row = least_clock();
    ask(range);
  }
  return take();
}

Actions WorkerMachine::leave() {
  to_leave_ = sides_.size();
  for (std::size_t range = 0; range < sides_.size(); ++range) {
    Side& side = sides_[range];
    side.is_leaving = true;
    side.awaits_row.reset();
    side.awake.reset();
    send(range, {.kind = PacketKind::leave, .sequence = side.pushes});
  }
  return take();
}

std::uint64_t WorkerMachine::answered() const {
  return std::ranges::min_element(sides_, {}, &Side::answered)->answered;
}

std::vector<std::int64_t> WorkerMachine::row_clocks() const {
  std::vector<std::int64_t> clocks;
  for (const Side& side : sides_) clocks.push_back(side.row_clock);
  return clocks;
}

std::uint64_t WorkerMachine::dropped() const {
  return std::ranges::max_element(sides_, {}, &Side::dropped)->dropped;
}

// --- machine -------------------------------------------------------------------------------------

// A row of a server that has left the chain since shows what was committed there.
bool WorkerMachine::is_of_server(int from, std::size_t range) const {
  return shape_.spec.replicas > 1 ? from != member_ : from == shape_.server_of(range);
}

Actions WorkerMachine::on_packet(int from, Packet packet, Time now) {
  const std::size_t range = packet.range;
  if (!is_of_server(from, range)) return {};
  Side& side = sides_[range];
  heard_ += packet.kind != PacketKind::missing && packet.kind != PacketKind::moved;
  switch (packet.kind) {
    case PacketKind::assigned:
      if (side.assigning) --to_assign_;
      side.assigning.reset();
      side.was_assigned = true;
      break;
    case PacketKind::answer: answer(range, packet); break;
    case PacketKind::row: row(range, packet); break;
    case PacketKind::quiet: became_quiet(range, packet); break;
    case PacketKind::left:
      side.unanswered.clear();
      if (std::exchange(side.is_leaving, false) && --to_leave_ == 0) tell_done();
      break;
    case PacketKind::missing: note_missing(side, std::move(packet)); break;
    case PacketKind::failed:
      if (!failure_)
        failure_ = Failure{packet.flags == Packet::kIsLost ? Fault::peer_lost : Fault::mismatch,
                           packet.text,
                           {from}};
      break;
    case PacketKind::moved:
      side.was_moved = true;
      if (!may_lose_messages()) actions_.emplace_back(machine::Arm{timer_, now + kAfterMoved});
      break;
    default: break;  // not for a worker
  }
  return take();
}

Actions WorkerMachine::on_timer(Time now) {
  for (std::size_t range = 0; range < sides_.size(); ++range)
    if (std::exchange(sides_[range].was_moved, false) || may_lose_messages()) send_again(range);
  if (may_lose_messages() && is_done_) tell_done();
  if (may_lose_messages()) actions_.emplace_back(machine::Arm{timer_, now + options_.resend_after});
  return take();
}

void WorkerMachine::send_again(std::size_t range) {
  const Side& side = sides_[range];
  if (side.joining != Joining::no) tell_join(range);
  if (side.assigning) send_to_head(range, *side.assigning);
  if (side.awake) send(range, {.kind = PacketKind::awake, .flags = *side.awake});
  for (const auto& [number, message] : side.unanswered) send_to_head(range, message);
  if (side.awaits_row) ask(range);
  if (side.is_leaving) send(range, {.kind = PacketKind::leave, .sequence = side.pushes});
}

// Servers that come later hear of it from these.
void WorkerMachine::tell_done() {
  is_done_ = true;
  if (shape_.spec.replicas == 1) return;
  std::set<int> servers;
  for (const Chain& one : chains_) servers.insert(one.servers.begin(), one.servers.end());
  for (const int server : servers)
    actions_.emplace_back(machine::Send{server, encode(Packet{.kind = PacketKind::done})});
}

Actions WorkerMachine::configure(const std::vector<Chain>& chains) {
  for (std::size_t i = 0; i < std::min(chains.size(), chains_.size()); ++i) {
    if (chains[i].generation <= chains_[i].generation) continue;
    const bool is_same = chains_[i].servers == chains[i].servers;
    chains_[i] = chains[i];
    for (std::size_t range = 0; range < sides_.size() && !is_same; ++range)
      if (shape_.chain_of(range) == i) chains_[i].servers.empty() ? lose(range) : send_again(range);
  }
  return take();
}

void WorkerMachine::lose(std::size_t range) {
  if (failure_) return;
  const int first = shape_.server_of(range);
  failure_ = Failure{Fault::peer_lost,
                     fmt::format("all {} servers that kept range {} of table '{}' have ended; "
                                 "the first of them was member {}",
                                 shape_.spec.replicas, range, shape_.spec.name, first),
                     {first}};
}

Actions WorkerMachine::on_lost(int peer) {
  if (shape_.spec.replicas > 1) return {};  // the chains tell
  if (!failure_ && std::ranges::find(shape_.members.servers, peer) != shape_.members.servers.end())
    failure_ = Failure{Fault::peer_lost,
                       fmt::format("member {}, a server of table '{}', has ended while worker {} "
                                   "uses the table",
                                   peer, shape_.spec.name, member_),
                       {peer}};
  return {};
}

void WorkerMachine::answer(std::size_t range, const Packet& packet) {
  Side& side = sides_[range];
  if (side.joining != Joining::no) return join_answered(range, packet);
  if (packet.sequence > side.answered) side.awake.reset();
  side.answered = std::max(side.answered, std::min(packet.sequence, side.pushes));
  side.dropped = std::max(side.dropped, packet.flags);
  side.unanswered.erase(side.unanswered.begin(), side.unanswered.upper_bound(side.answered));
}

void WorkerMachine::join_answered(std::size_t range, const Packet& packet) {
  Side& side = sides_[range];
  if (side.joining == Joining::tells && static_cast<std::int64_t>(packet.count) < clock_) return;
  const bool asked = side.joining == Joining::asks;
  side.joining = Joining::no;
  if (asked) clock_ = std::max(clock_, packet.clock);
  if (--to_join_ > 0 || !asked) return;
  to_join_ = sides_.size();
  for (std::size_t i = 0; i < sides_.size(); ++i) {
    sides_[i].joining = Joining::tells;
    tell_join(i);
  }
}

void WorkerMachine::row(std::size_t range, const Packet& packet) {
  Side& side = sides_[range];
  if (!side.awaits_row || packet.flags != pull_ || packet.count != shape_.ranges[range].elements)
    return;
  side.awaits_row.reset();
  side.awake.reset();
  side.row_clock = packet.clock;
  note(range, packet.facts);
  while (!side.differences.empty() && side.differences.front().first <= packet.sequence)
    side.differences.pop_front();
  store(range, packet);
  if (--rows_missing_ == 0) end_pull();
  else if (range == 0 && !packet.rounds.empty()) tell_rounds(packet.rounds);
}

// The other ranges of the table follow the rounds of the first one.
void WorkerMachine::tell_rounds(const std::vector<Round>& rounds) {
  rounds_ = rounds;
  for (std::size_t range = 1; range < sides_.size(); ++range)
    if (sides_[range].awaits_row) ask(range);
}

void WorkerMachine::store(std::size_t range, const Packet& packet) {
  const auto& differences = sides_[range].differences;
  if (differences.empty()) return shape_.scatter(range, packet.elements, values_);
  std::vector<std::byte> sum(packet.elements.begin(), packet.elements.end());
  for (const auto& [number, difference] : differences)
    reduce(ReduceOp::sum, shape_.spec.dtype, sum, difference, sum);
  shape_.scatter(range, sum, values_);
}

// Gradients belong to one version: where steps close without this worker, rows of older versions
// are pulled again.
void WorkerMachine::end_pull() {
  if (shape_.pacing.skips_steps()) {
    const std::int64_t newest = std::ranges::max_element(sides_, {}, &Side::row_clock)->row_clock;
    ++pull_;
    for (std::size_t range = 0; range < sides_.size(); ++range) {
      if (sides_[range].row_clock == newest) continue;
      sides_[range].awaits_row = newest;
      ++rows_missing_;
      ask(range);
    }
    if (rows_missing_ > 0) return;
    clock_ = newest;
    has_pushed_ = false;
  }
  is_pulling_ = false;
  may_push_ = true;
}

std::int64_t WorkerMachine::least_clock() const {
  if (shape_.pacing.skips_steps()) return clock_ + (has_pushed_ ? 1 : 0);
  return shape_.pacing.least_clock(clock_);
}

// --- what goes to servers ------------------------------------------------------------------------

void WorkerMachine::send(std::size_t range, Packet packet) {
  packet.range = static_cast<std::uint32_t>(range);
  send_to_head(range, encode(packet));
}

void WorkerMachine::send_to_head(std::size_t range, Message message) {
  if (!chain(range).servers.empty())
    actions_.emplace_back(machine::Send{chain(range).servers.front(), std::move(message)});
}

// A rule cannot be undone or foreseen, so where the server steps, a row must hold all own pushes
// that it may show: it is made when they have come. Then the range also knows that no push of this
// worker is under way to a step below the least clock. Where steps close without some workers, the
// first server must know that too, and the last one has the row.
void WorkerMachine::ask(std::size_t range) {
  const Side& side = sides_[range];
  const bool needs_own = is_quiescing_ || !shape_.pacing.worker_updates;
  Packet packet{.kind = is_quiescing_ ? PacketKind::quiesce : PacketKind::pull,
                .range = static_cast<std::uint32_t>(range),
                .flags = pull_,
                .sequence = needs_own ? side.pushes : 0,
                .clock = *side.awaits_row,
                .rounds = range == 0 || is_quiescing_ ? std::vector<Round>() : rounds_};
  const Chain& servers = chain(range);
  if (servers.servers.empty()) return;
  const bool is_for_head = is_quiescing_ || shape_.pacing.pulls_at_both_ends();
  const int head = servers.servers.front(), tail = servers.servers.back();
  if (is_for_head) actions_.emplace_back(machine::Send{head, encode(packet)});
  if (!is_quiescing_ && (!is_for_head || head != tail))
    actions_.emplace_back(machine::Send{tail, encode(packet)});
}

void WorkerMachine::tell_join(std::size_t range) {
  const bool asks = sides_[range].joining == Joining::asks;
  send(range, {.kind = PacketKind::join, .clock = asks ? kAnyClock : clock_});
}

}  // namespace paceline::server
