#include "paceline/core/collective/carrier/program_carrier.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "paceline/core/base/half.h"
#include "paceline/core/collective/call/collective_frames.h"
#include "paceline/core/collective/carrier/carrier_pieces.h"
#include "paceline/core/collective/carrier/combine.h"
#include "paceline/core/collective/staging/staged_call.h"

namespace paceline::collective {
namespace {

using transport::FrameHeader;
using transport::FrameType;

// Messages up to this length go out before every rank is known to have made the call; peers keep
// them until they are wanted.
constexpr std::size_t kEager = 32 << 10;

// A send is known by its segment, the rank it goes to, and its slot.
constexpr int kSlotBits = 24, kRankBits = 16;

std::uint64_t cookie_of(int segment, int rank, std::size_t slot) {
  return ((static_cast<std::uint64_t>(segment) << kRankBits | static_cast<std::uint64_t>(rank))
          << kSlotBits) |
         slot;
}

bool sends(Step::Kind kind) {
  return kind == Step::Kind::send || kind == Step::Kind::store;
}
bool receives(Step::Kind kind) {
  return kind == Step::Kind::recv || kind == Step::Kind::recv_reduce;
}

// `count` elements from `at` on.
template <typename AnyBuffer>
AnyBuffer part_of(AnyBuffer whole, std::size_t at, std::size_t count) {
  whole.data += at * size_of(whole.dtype);
  whole.count = count;
  return whole;
}

}  // namespace

ProgramCarrier::ProgramCarrier(const Members& members, CallAgreement& agreement, Traffic& traffic,
                               std::function<void()> on_done)
    : members_(members),
      agreement_(agreement),
      traffic_(traffic),
      on_done_(std::move(on_done)),
      unread_(static_cast<std::size_t>(members.size())) {}

Result<> ProgramCarrier::begin(std::uint64_t, Request& request) {
  request_ = &request;
  if (!request.plan) return Done{};
  outputs_.emplace(members_, request, agreement_);
  wide_sums_ = request.plan->has_wide_sums && is_half(request.call.dtype) &&
               rounds(request.call.op, request.call.dtype);
  segments_left_ = request.segments;
  finished_.resize(static_cast<std::size_t>(request.segments));
  const std::size_t element = wide_sums_ ? sizeof(float) : size_of(request.call.dtype);
  scratch_.bytes = request.cut(request.input_chunks, 0).longest() * element;
  return Done{};
}

AwaitedRanks ProgramCarrier::awaited() const {
  std::set<int> peers;
  for (const auto& [number, segment] : segments_) {
    if (segment->round >= request_->plan->rounds.size()) continue;
    const auto& round = request_->plan->rounds[segment->round];
    for (std::size_t i = 0; i < round.size(); ++i) {
      if (!segment->done[i] && receives(round[i].step.kind)) peers.insert(round[i].step.peer);
    }
  }
  if (!peers.empty()) return {.ranks = {peers.begin(), peers.end()}};
  AwaitedRanks readers{.to_take = true};
  for (int rank = 0; rank < members_.size(); ++rank) {
    if (unread_[static_cast<std::size_t>(rank)] > 0) readers.ranks.push_back(rank);
  }
  return readers;
}

// --- the life of a segment -----------------------------------------------------------------------

Segment& ProgramCarrier::activate(int number) {
  auto& segment = segments_[number];
  if (!segment) segment = std::make_unique<Segment>(*request_, number, wide_sums_, scratch_);
  return *segment;
}

Result<CallProgress> ProgramCarrier::advance() {
  if (auto advanced = advance_all(); !advanced) return advanced.error();
  return segments_left_ == 0 ? CallProgress::done : CallProgress::waiting;
}

// False while a part of the segment's input is on its way from a device, or is to be scaled.
bool ProgramCarrier::input_is_here(int segment) const {
  if (request_->scale_input) return false;
  if (!request_->staged || request_->staged->is_here()) return true;
  if (!request_->staged->has_pieces()) return false;
  return std::ranges::all_of(
      input_of_segment(*request_, members_.rank(), segment),
      [this](const ElementRange& part) { return request_->staged->is_here(part); });
}

// Early messages make segments too, and may take all places: the one that is next begins all the
// same, or nothing would go on.
bool ProgramCarrier::may_begin_next() const {
  const bool has_place = static_cast<int>(segments_.size()) < kSegmentsInFlight ||
                         segments_.begin()->first > next_segment_;
  return next_segment_ < request_->segments && has_place &&
         (finished_[static_cast<std::size_t>(next_segment_)] || input_is_here(next_segment_));
}

Result<> ProgramCarrier::advance_all() {
  if (request_->scale_input) {
    const bool is_here = !request_->staged || request_->staged->is_here();
    if (!is_here || !record().is_complete()) return Done{};
    scale_input(*request_, record(), members_.rank());
  }
  if (!request_->plan) return Done{};
  std::vector<int> running;
  for (const auto& [number, segment] : segments_) running.push_back(number);
  for (const int number : running) {
    const auto found = segments_.find(number);
    if (found == segments_.end()) continue;
    if (auto advanced = advance(*found->second); !advanced) return advanced;
  }
  while (may_begin_next()) {
    const int number = next_segment_++;
    if (finished_[static_cast<std::size_t>(number)]) continue;
    if (auto advanced = advance(activate(number)); !advanced) return advanced;
  }
  return Done{};
}

Result<> ProgramCarrier::advance(Segment& segment) {
  if (!input_is_here(segment.number)) return Done{};
  const ProgramPlan& plan = *request_->plan;
  while (segment.round < plan.rounds.size()) {
    bool all = true;
    for (std::size_t i = 0; i < segment.done.size(); ++i) {
      if (segment.done[i]) continue;
      auto done = attempt(segment, i);
      if (!done) return done.error();
      segment.done[i] = *done;
      all = all && *done;
    }
    if (!all) return Done{};
    end_round(segment);
  }
  if (segment.all_readers > 0) return Done{};
  const int number = segment.number;
  finished_[static_cast<std::size_t>(number)] = true;
  --segments_left_;
  segments_.erase(number);
  return let_go_of_output(number);
}

// Its device may have this part of a staged output.
Result<> ProgramCarrier::let_go_of_output(int segment) {
  if (!request_->staged || !request_->staged->has_pieces()) return Done{};
  for (const ElementRange& part : output_of_segment(*request_, members_.rank(), segment))
    if (auto told = request_->staged->output_is_final(part); !told)
      return failed_device(members_, *request_, told.error());
  return Done{};
}

void ProgramCarrier::end_round(Segment& segment) {
  for (auto& view : segment.views()) {
    if (view.until != static_cast<int>(segment.round)) continue;
    members_.link(view.peer)->release(view.header);
    view.until = -1;
  }
  ++segment.round;
  if (segment.round < request_->plan->rounds.size()) {
    segment.done.assign(request_->plan->rounds[segment.round].size(), false);
  }
}

bool ProgramCarrier::may_write(Segment& segment, const Step& step) const {
  return segment.readers(segment.slot_number(step.target)) == 0 &&
         (record().is_complete() || (step.target.space == Slot::Space::scratch && !step.completes));
}

// False until the message is here that says why, where a peer's call has failed: what was done
// with its memory then does not count.
Result<bool> ProgramCarrier::attempt(Segment& segment, std::size_t index) {
  const Action& action = request_->plan->rounds[segment.round][index];
  const Step& step = action.step;
  if (sends(step.kind))
    return segment.slot_bytes(step.source) == 0 || attempt_send(segment, action);
  if (segment.slot_bytes(step.target) == 0) return true;
  if (receives(step.kind)) return attempt_receive(segment, action);
  return attempt_local(segment, action);
}

// --- steps ---------------------------------------------------------------------------------------

FrameHeader ProgramCarrier::header(FrameType type, int peer, const Segment& segment,
                                   int number) const {
  const int each = request_->plan->sends[static_cast<std::size_t>(peer)];
  return agreement_.mark().header(type, static_cast<std::uint32_t>(segment.number * each + number));
}

bool ProgramCarrier::attempt_send(Segment& segment, const Action& action) {
  const Step& step = action.step;
  const Bytes bytes = segment.readable(step.source);
  if (!record().is_complete() && (bytes.size() > kEager || step.kind == Step::Kind::store))
    return false;
  transport::Link& link = *members_.link(step.peer);
  if (step.kind == Step::Kind::store) {
    const StoredOutputs::Window window = outputs_->of_peer(segment, step);
    if (!window.bytes.empty()) {
      const bool written = segment.stored_ahead == static_cast<int>(segment.round);
      if (!written) {
        if (!use_.begin(link)) return false;
        std::memcpy(window.bytes.data(), bytes.data() + window.head, window.bytes.size());
        if (!use_.end()) return false;
      }
      ++traffic_.messages_sent;
      traffic_.bytes_sent += bytes.size();
      const Bytes head = bytes.first(window.head), tail = bytes.last(window.tail);
      std::vector<std::byte> edges(head.begin(), head.end());
      edges.insert(edges.end(), tail.begin(), tail.end());
      link.send(header(frame::kStored, step.peer, segment, action.number), edges);
      return true;
    }
  }
  ++traffic_.messages_sent;
  traffic_.bytes_sent += bytes.size();
  const std::size_t slot = segment.slot_number(step.source);
  ++segment.readers(slot);
  ++segment.all_readers;
  ++unread_[static_cast<std::size_t>(step.peer)];
  link.send(header(FrameType::data, step.peer, segment, action.number), bytes, this,
            cookie_of(segment.number, step.peer, slot));
  return true;
}

void ProgramCarrier::sent(std::uint64_t cookie) {
  --unread_[(cookie >> kSlotBits) & ((std::uint64_t{1} << kRankBits) - 1)];
  const auto found = segments_.find(static_cast<int>(cookie >> (kSlotBits + kRankBits)));
  if (found == segments_.end()) return;
  Segment& segment = *found->second;
  --segment.readers(cookie & ((std::uint64_t{1} << kSlotBits) - 1));
  --segment.all_readers;
  auto advanced = advance(segment);
  if (advanced) advanced = advance_all();
  if (!advanced) members_.generation().fail(advanced.error());
  else if (segments_left_ == 0) {
    const auto on_done = on_done_;  // ours may end with this
    on_done();
  }
}

// If a slot is a view of a peer's memory, its use begins.
bool ProgramCarrier::use_view(const Segment& segment, const Slot& slot) {
  if (slot.space != Slot::Space::scratch) return true;
  const Segment::View& view = segment.view(slot);
  return view.until < 0 || use_.begin(*members_.link(view.peer));
}

bool ProgramCarrier::attempt_receive(Segment& segment, const Action& action) {
  const Step& step = action.step;
  const auto found = segment.arrivals.find({step.peer, action.number});
  if (found == segment.arrivals.end() || !may_write(segment, step)) return false;
  const bool is_borrowed = found->second.kind == Arrival::Kind::borrowed;
  const bool is_view = is_borrowed && action.view_until >= 0;
  const bool reduces = step.kind == Step::Kind::recv_reduce;
  const bool may_use = (!is_borrowed || is_view || use_.begin(*members_.link(step.peer))) &&
                       (!reduces || use_view(segment, step.operand));
  if (!may_use) {
    use_.end();
    return false;
  }
  Arrival arrival = std::move(found->second);
  segment.arrivals.erase(found);
  const Bytes bytes = arrival.owned.empty() ? arrival.bytes : Bytes(arrival.owned);
  if (is_view) {
    segment.view(step.target) = {bytes, arrival.header, step.peer, action.view_until};
    return true;
  }
  if (reduces) {
    const ConstBuffer own = segment.operand(step.operand, false);
    const ConstBuffer theirs{bytes.data(), own.count, own.dtype};
    combine(step.operand_is_left ? own : theirs, step.operand_is_left ? theirs : own,
            segment.sum(step.target, false), factor_of(step));
  } else if (arrival.kind == Arrival::Kind::payload || is_borrowed) {
    std::memcpy(segment.writable(step.target).data(), bytes.data(), bytes.size());
  } else if (arrival.kind == Arrival::Kind::stored) {
    StoredOutputs::take_edges(outputs_->own(segment, step.target), bytes);
  }
  if (!use_.end()) return false;
  if (is_borrowed) members_.link(step.peer)->release(arrival.header);
  give_view_back(segment, step.target);
  return true;
}

bool ProgramCarrier::attempt_local(Segment& segment, const Action& action) {
  const Step& step = action.step;
  if (!may_write(segment, step)) return false;
  const bool may_use = use_view(segment, step.source) &&
                       (step.kind == Step::Kind::copy || use_view(segment, step.operand));
  if (!may_use) {
    use_.end();
    return false;
  }
  if (step.kind == Step::Kind::copy) {
    const Bytes source = segment.readable(step.source);
    const MutableBytes target = segment.writable(step.target);
    if (target.data() != source.data()) std::memcpy(target.data(), source.data(), source.size());
    if (const double factor = factor_of(step); factor != 1.0)
      scale(request_->call.dtype, target, factor);
  } else if (!reduce_and_store(segment, action)) {
    combine(segment.operand(step.source, action.wide_source),
            segment.operand(step.operand, action.wide_operand),
            segment.sum(step.target, action.wide_target), factor_of(step));
  }
  if (!use_.end()) return false;
  give_view_back(segment, step.target);
  return true;
}

double ProgramCarrier::factor_of(const Step& step) const {
  return step.completes && request_->call.op == ReduceOp::average ? record().sum_factor() : 1.0;
}

void ProgramCarrier::combine(ConstBuffer left, ConstBuffer right, Buffer target, double factor) {
  traffic_.bytes_reduced += target.count * size_of(request_->call.dtype);
  collective::combine(request_->call.op, left, right, target, factor);
}

// The reduction and the stores of its result in one go. False, and nothing done, where a peer's
// memory is out of reach.
bool ProgramCarrier::reduce_and_store(Segment& segment, const Action& action) {
  const Step& step = action.step;
  std::vector<StoredOutputs::Window> windows;
  for (const int i : action.stores) {
    const Step& store = request_->plan->rounds[segment.round + 1][static_cast<std::size_t>(i)].step;
    windows.push_back(outputs_->of_peer(segment, store));
    if (windows.back().bytes.empty() || !use_.begin(*members_.link(store.peer))) return false;
  }
  if (windows.empty() || !record().is_complete()) return false;
  const ConstBuffer left = segment.operand(step.source, action.wide_source);
  const ConstBuffer right = segment.operand(step.operand, action.wide_operand);
  const Buffer target = segment.sum(step.target, false);
  const double factor = factor_of(step);
  const std::size_t element = size_of(target.dtype), longest = kReductionBlock / element;
  for (std::size_t at = 0; at < target.count; at += longest) {
    const std::size_t count = std::min(longest, target.count - at);
    const Buffer block = part_of(target, at, count);
    combine(part_of(left, at, count), part_of(right, at, count), block, factor);
    const std::size_t begin = at * element, end = begin + block.size_bytes();
    for (const StoredOutputs::Window& window : windows) {
      const std::size_t from = std::max(begin, window.head);
      const std::size_t to = std::min(end, window.head + window.bytes.size());
      if (from >= to) continue;
      std::memcpy(window.bytes.data() + (from - window.head), block.data + (from - begin),
                  to - from);
    }
  }
  segment.stored_ahead = static_cast<int>(segment.round) + 1;
  return true;
}

// A slot that was a view of the peer's memory is this rank's own once it is written.
void ProgramCarrier::give_view_back(Segment& segment, const Slot& slot) {
  if (slot.space != Slot::Space::scratch) return;
  auto& view = segment.view(slot);
  if (view.until < 0) return;
  members_.link(view.peer)->release(view.header);
  view.until = -1;
}

// --- messages ------------------------------------------------------------------------------------

MutableBytes ProgramCarrier::place(int peer, const FrameHeader& header) {
  if (header.descriptor != agreement_.mark().descriptor) return {};
  const Action* action = header.type == FrameType::data ? expected(peer, header) : nullptr;
  if (action == nullptr || action->step.kind != Step::Kind::recv) return {};
  const auto& receives_from = request_->plan->receives[static_cast<std::size_t>(peer)];
  Segment& segment = activate(static_cast<int>(header.index / receives_from.size()));
  const auto [round, index] = receives_from[static_cast<std::size_t>(action->number)];
  if (segment.round != static_cast<std::size_t>(round) ||
      segment.done[static_cast<std::size_t>(index)] || !input_is_here(segment.number))
    return {};
  if (!may_write(segment, action->step) || segment.slot_bytes(action->step.target) != header.length)
    return {};
  return segment.writable(action->step.target);
}

Result<> ProgramCarrier::received(int peer, const FrameHeader& header, Bytes payload,
                                  Delivery delivery) {
  Arrival arrival{.bytes = payload, .header = header};
  if (header.type == frame::kStored) arrival.kind = Arrival::Kind::stored;
  else if (delivery == Delivery::placed) arrival.kind = Arrival::Kind::placed;
  else if (delivery == Delivery::borrowed) arrival.kind = Arrival::Kind::borrowed;
  return arrived(peer, header, std::move(arrival));
}

const Action* ProgramCarrier::expected(int peer, const FrameHeader& header) const {
  if (!request_->plan) return nullptr;
  const auto& receives_from = request_->plan->receives[static_cast<std::size_t>(peer)];
  if (receives_from.empty()) return nullptr;
  const std::size_t segment = header.index / receives_from.size();
  if (segment >= static_cast<std::size_t>(request_->segments) || finished_[segment]) return nullptr;
  const auto [round, index] = receives_from[header.index % receives_from.size()];
  return &request_->plan->rounds[static_cast<std::size_t>(round)][static_cast<std::size_t>(index)];
}

bool ProgramCarrier::has_right_length(Segment& segment, const Step& step,
                                      const Arrival& arrival) const {
  if (arrival.kind != Arrival::Kind::stored)
    return arrival.bytes.size() == segment.slot_bytes(step.target);
  if (step.kind != Step::Kind::recv || step.target.space != Slot::Space::output) return false;
  const StoredOutputs::Window output = outputs_->own(segment, step.target);
  return arrival.bytes.size() == output.head + output.tail;
}

Result<> ProgramCarrier::arrived(int peer, const FrameHeader& header, Arrival arrival) {
  const auto unexpected = [&](std::string_view why) {
    return collective::unexpected(members_, peer, header, why);
  };
  const Action* const action = expected(peer, header);
  if (action == nullptr) return unexpected("which it does not have, or has sent before");
  const Step& step = action->step;
  const auto& receives_from = request_->plan->receives[static_cast<std::size_t>(peer)];
  const int number = static_cast<int>(header.index / receives_from.size());
  Segment& segment = activate(number);
  const auto round = receives_from[static_cast<std::size_t>(action->number)].round;
  if (!has_right_length(segment, step, arrival) || static_cast<std::size_t>(round) < segment.round)
    return unexpected("of another length than expected");
  const std::pair key{peer, action->number};
  if (!segment.arrivals.emplace(key, std::move(arrival)).second)
    return unexpected("which it has sent before");
  if (auto advanced = advance(segment); !advanced) return advanced;
  if (const auto still = segments_.find(number); still != segments_.end()) {
    const auto waiting = still->second->arrivals.find(key);
    if (waiting != still->second->arrivals.end() &&
        (waiting->second.kind == Arrival::Kind::payload ||
         waiting->second.kind == Arrival::Kind::stored)) {
      waiting->second.owned.assign(waiting->second.bytes.begin(), waiting->second.bytes.end());
    }
  }
  return Done{};
}

}  // namespace paceline::collective
