#include "paceline/core/server/machine/worker_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "paceline/core/base/check.h"
#include "paceline/core/base/reduce.h"

namespace paceline::server {

using machine::Actions;
using machine::Message;
using machine::Time;

WorkerMachine::WorkerMachine(const TableShape& shape, int member, const WorkerOptions& options,
                             std::uint32_t timer)
    : shape_(shape),
      is_newcomer_(options.is_newcomer),
      servers_(shape, shape.ranges.size(), member,
               {fmt::format("table '{}'", shape.spec.name), "range", options.resend_after, timer}),
      sides_(shape.ranges.size()),
      values_(shape.spec.elements * shape.element_bytes()),
      may_push_(!options.is_newcomer) {}

// --- what the worker does ------------------------------------------------------------------------

Actions WorkerMachine::start(Time now) {
  servers_.start(now);
  if (!is_newcomer_) return servers_.take();
  to_join_ = sides_.size();
  for (std::size_t range = 0; range < sides_.size(); ++range) {
    sides_[range].joining = Joining::asks;
    tell_join(range);
  }
  return servers_.take();
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
    servers_.send_to_first(range, *sides_[range].assigning);
  }
  return servers_.take();
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
    servers_.send_to_first(range, std::move(message));
  }
  has_pushed_ = true;
  may_push_ = !shape_.pacing.reads_between_pushes();
  if (!shape_.pacing.skips_steps()) ++clock_;
  return servers_.take();
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
  return servers_.take();
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
  return servers_.take();
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

Actions WorkerMachine::on_packet(int from, Packet packet, Time now) {
  const std::size_t range = packet.range;
  if (!servers_.may_tell(from, range)) return {};
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
      if (std::exchange(side.is_leaving, false) && --to_leave_ == 0)
        servers_.tell_done(encode(Packet{.kind = PacketKind::done}));
      break;
    case PacketKind::missing: note_missing(range, packet); break;
    case PacketKind::failed:
      servers_.fail({packet.flags == Packet::kIsLost ? Fault::peer_lost : Fault::mismatch,
                     packet.text,
                     {from}});
      break;
    case PacketKind::moved: servers_.note_moved(range, now); break;
    default: break;  // not for a worker
  }
  return servers_.take();
}

Actions WorkerMachine::on_timer(Time now) {
  for (const std::size_t range : servers_.begin_timer()) send_again(range);
  servers_.end_timer(now);
  return servers_.take();
}

void WorkerMachine::send_again(std::size_t range) {
  const Side& side = sides_[range];
  if (side.joining != Joining::no) tell_join(range);
  if (side.assigning) servers_.send_to_first(range, *side.assigning);
  if (side.awake) send(range, {.kind = PacketKind::awake, .flags = *side.awake});
  for (const auto& [number, message] : side.unanswered) servers_.send_to_first(range, message);
  if (side.awaits_row) ask(range);
  if (side.is_leaving) send(range, {.kind = PacketKind::leave, .sequence = side.pushes});
}

Actions WorkerMachine::configure(const std::vector<Chain>& chains) {
  for (const std::size_t range : servers_.configure(chains)) send_again(range);
  return servers_.take();
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
  servers_.send_to_first(range, encode(packet));
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
  const std::vector<int>& servers = servers_.of(range);
  if (servers.empty()) return;
  const bool is_for_head = is_quiescing_ || shape_.pacing.pulls_at_both_ends();
  const int head = servers.front(), tail = servers.back();
  if (is_for_head) servers_.send(head, encode(packet));
  if (!is_quiescing_ && (!is_for_head || head != tail)) servers_.send(tail, encode(packet));
}

void WorkerMachine::tell_join(std::size_t range) {
  const bool asks = sides_[range].joining == Joining::asks;
  send(range, {.kind = PacketKind::join, .clock = asks ? kAnyClock : clock_});
}

}  // namespace paceline::server
