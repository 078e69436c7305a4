#include "paceline/core/collective/execution.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "paceline/core/collective/work_state.h"

namespace paceline::collective {
namespace {

using transport::FrameHeader;
using transport::FrameType;

// Segments that run at the same time: enough that the wait of one hides behind the work of others.
constexpr int kWindow = 8;

// Messages up to this length go out before every rank is known to have made the call; peers keep them until they are wanted.
constexpr std::size_t kEager = 4096;

constexpr std::uint64_t kSlotBits = 20;

// A block of a reduction and its stores: stays in the nearest cache with its operands.
constexpr std::size_t kBlock = 4032;

bool sends(Step::Kind kind) { return kind == Step::Kind::send || kind == Step::Kind::store; }
bool receives(Step::Kind kind) { return kind == Step::Kind::recv || kind == Step::Kind::recv_reduce; }

}  // namespace

// A message that is here but not yet taken.
struct Execution::Arrival {
  enum class Kind : std::uint8_t { payload, placed, stored, borrowed } kind = Kind::payload;
  Bytes bytes;                   // payload, borrowed
  std::vector<std::byte> owned;  // payload that outlived its frame
  FrameHeader header;            // borrowed: to give it back
};

struct Execution::Instance {
  int segment = 0;
  Partition piece;
  std::size_t round = 0;
  std::vector<bool> done;             // by action of the round
  std::vector<std::uint16_t> reading; // by slot: sends that still read it
  int readers = 0;                    // their sum
  int stored_ahead = -1;              // the round whose stores a reduction has written already
  std::vector<std::unique_ptr<std::byte[]>> scratch;  // by place
  struct View {
    Bytes bytes;
    FrameHeader header;
    int peer = -1;
    int until = -1;  // round; -1: none
  };
  std::vector<View> views;            // by place: where scratch is really the peer's memory
  std::map<std::pair<int, int>, Arrival> arrivals;  // by (peer, number)
};

Execution::Execution(membership::Mesh& mesh, std::uint32_t group, std::uint64_t sequence, Request request,
                     Traffic& traffic, std::function<void()> on_done)
    : mesh_(mesh),
      group_(group),
      sequence_(sequence),
      request_(std::move(request)),
      traffic_(traffic),
      on_done_(std::move(on_done)),
      descriptor_(fingerprint(request_.call)),
      element_bytes_(size_of(request_.call.dtype)),
      in_place_(request_.scale_input || request_.input.data == request_.output.data ||
                request_.call.operation == Operation::all_gather || request_.call.operation == Operation::reduce_scatter),
      calls_(static_cast<std::size_t>(mesh.identity().size)) {
  if (request_.plan) {
    segments_left_ = request_.segments;
    finished_.resize(static_cast<std::size_t>(request_.segments));
    scratch_bytes_ = request_.partition.segment(0, request_.segments).longest() * element_bytes_;
  }
}

Execution::~Execution() = default;

void Execution::start() {
  calls_missing_ = mesh_.identity().size - 1;
  Call& own = request_.call;
  calls_[static_cast<std::size_t>(mesh_.identity().rank)] = own;
  FrameHeader header{.type = FrameType::call, .sequence = sequence_, .descriptor = descriptor_, .group = group_};
  for (int peer = 0; peer < mesh_.identity().size; ++peer) {
    transport::Link* link = mesh_.link(peer);
    if (link == nullptr) continue;
    own.output = {};
    if (request_.plan) own.output = link->remote_of(request_.output.bytes()).value_or(transport::Remote{});
    link->send(header, encode(own));
  }
  if (auto advanced = advance_all(); !advanced) mesh_.fail(advanced.error());
}

bool Execution::weigh_the_same() const {
  const Call& own = request_.call;
  return !own.weighted || (own.weight != 0 && std::ranges::all_of(calls_, [&](const auto& call) { return call->weight == own.weight; }));
}

void Execution::scale_input() {
  request_.scale_input = false;
  if (weigh_the_same()) return;
  if (request_.input.data != request_.output.data && request_.output.count > 0) {
    std::memcpy(request_.output.data, request_.input.data, request_.output.size_bytes());
  }
  scale(request_.call.dtype, request_.output.bytes(), request_.call.weight);
  request_.input = request_.output;
}

Result<> Execution::peer_called(int peer, Call call) {
  calls_[static_cast<std::size_t>(peer)] = std::move(call);
  --calls_missing_;
  return advance_all();
}

std::vector<int> Execution::not_called() const {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < calls_.size(); ++rank) {
    if (!calls_[rank]) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

void Execution::publish() {
  for (const auto& call : calls_) {
    request_.work->total_weight += call->weighted ? call->weight : 1;
    request_.work->notes.push_back(call->note);
  }
}

double Execution::scale_factor() const {
  if (weigh_the_same()) return 1.0 / static_cast<double>(calls_.size());
  double total = 0;
  for (const auto& call : calls_) total += call->weight;  // in rank order: the same bits everywhere
  return total == 0 ? 1.0 : 1.0 / total;
}

// --- slots -------------------------------------------------------------------------------------------------------

std::size_t Execution::slot_index(const Slot& slot) const {
  const auto chunks = static_cast<std::size_t>(request_.plan->chunks), chunk = static_cast<std::size_t>(slot.chunk);
  switch (slot.space) {
    case Slot::Space::input: return in_place_ ? chunks + chunk : chunk;
    case Slot::Space::output: return chunks + chunk;
    case Slot::Space::scratch: return 2 * chunks + static_cast<std::size_t>(slot.place);
  }
  return 0;
}

std::size_t Execution::slot_bytes(const Instance& instance, const Slot& slot) const {
  return instance.piece.chunks[static_cast<std::size_t>(slot.chunk)].count * element_bytes_;
}

Bytes Execution::readable(const Instance& instance, const Slot& slot) const {
  const Range range = instance.piece.chunks[static_cast<std::size_t>(slot.chunk)];
  const std::size_t bytes = range.count * element_bytes_;
  if (slot.space == Slot::Space::input) {
    return {request_.input.data + (range.offset - request_.input_origin) * element_bytes_, bytes};
  }
  if (slot.space == Slot::Space::output) {
    return {request_.output.data + (range.offset - request_.output_origin) * element_bytes_, bytes};
  }
  const auto place = static_cast<std::size_t>(slot.place);
  if (instance.views[place].until >= 0) return instance.views[place].bytes;
  return {instance.scratch[place].get(), bytes};
}

MutableBytes Execution::writable(Instance& instance, const Slot& slot) const {
  const Range range = instance.piece.chunks[static_cast<std::size_t>(slot.chunk)];
  const std::size_t bytes = range.count * element_bytes_;
  if (slot.space == Slot::Space::output) {
    return {request_.output.data + (range.offset - request_.output_origin) * element_bytes_, bytes};
  }
  auto& own = instance.scratch[static_cast<std::size_t>(slot.place)];
  if (!own) own = std::make_unique_for_overwrite<std::byte[]>(std::max<std::size_t>(scratch_bytes_, 1));
  return {own.get(), bytes};
}

bool Execution::may_write(const Instance& instance, const Step& step) const {
  return instance.reading[slot_index(step.target)] == 0 &&
         (all_called() || (step.target.space == Slot::Space::scratch && !step.completes));
}

// --- the life of a segment ----------------------------------------------------------------------------------------

Execution::Instance& Execution::activate(int segment) {
  auto& instance = instances_[segment];
  if (instance) return *instance;
  instance = std::make_unique<Instance>();
  const Plan& plan = *request_.plan;
  instance->segment = segment;
  instance->piece = request_.partition.segment(segment, request_.segments);
  instance->reading.resize(static_cast<std::size_t>(2 * plan.chunks + plan.scratch_places));
  instance->views.resize(static_cast<std::size_t>(plan.scratch_places));
  instance->scratch.resize(static_cast<std::size_t>(plan.scratch_places));
  for (auto& place : instance->scratch) {
    if (free_scratch_.empty()) break;
    place = std::move(free_scratch_.back());
    free_scratch_.pop_back();
  }
  if (!plan.rounds.empty()) instance->done.assign(plan.rounds[0].size(), false);
  return *instance;
}

Result<> Execution::advance_all() {
  if (!request_.plan) return Done{};
  if (request_.scale_input) {
    if (!all_called()) return Done{};
    scale_input();
  }
  std::vector<int> running;
  for (const auto& [segment, instance] : instances_) running.push_back(segment);
  for (const int segment : running) {
    const auto found = instances_.find(segment);
    if (found == instances_.end()) continue;
    if (auto advanced = advance(*found->second); !advanced) return advanced;
  }
  while (static_cast<int>(instances_.size()) < kWindow && next_segment_ < request_.segments) {
    const int segment = next_segment_++;
    if (finished_[static_cast<std::size_t>(segment)]) continue;
    if (auto advanced = advance(activate(segment)); !advanced) return advanced;
  }
  return Done{};
}

Result<> Execution::advance(Instance& instance) {
  if (request_.scale_input) return Done{};
  const Plan& plan = *request_.plan;
  while (instance.round < plan.rounds.size()) {
    bool all = true;
    for (std::size_t i = 0; i < instance.done.size(); ++i) {
      if (instance.done[i]) continue;
      auto done = attempt(instance, i);
      if (!done) return done.error();
      instance.done[i] = *done;
      all = all && *done;
    }
    if (!all) return Done{};
    end_round(instance);
  }
  if (instance.readers > 0) return Done{};
  for (auto& place : instance.scratch) {
    if (place) free_scratch_.push_back(std::move(place));
  }
  finished_[static_cast<std::size_t>(instance.segment)] = true;
  --segments_left_;
  instances_.erase(instance.segment);
  return Done{};
}

void Execution::end_round(Instance& instance) {
  for (auto& view : instance.views) {
    if (view.until != static_cast<int>(instance.round)) continue;
    mesh_.link(view.peer)->release(view.header);
    view.until = -1;
  }
  ++instance.round;
  if (instance.round < request_.plan->rounds.size()) {
    instance.done.assign(request_.plan->rounds[instance.round].size(), false);
  }
}

Result<bool> Execution::attempt(Instance& instance, std::size_t index) {
  const Action& action = request_.plan->rounds[instance.round][index];
  const Step& step = action.step;
  if (sends(step.kind)) return slot_bytes(instance, step.source) == 0 || attempt_send(instance, action);
  if (slot_bytes(instance, step.target) == 0) return true;
  if (receives(step.kind)) return attempt_receive(instance, action);
  return attempt_local(instance, action);
}

// --- steps --------------------------------------------------------------------------------------------------------

FrameHeader Execution::header(FrameType type, int peer, const Instance& instance, int number) const {
  const int each = request_.plan->sends[static_cast<std::size_t>(peer)];
  return {.type = type,
          .sequence = sequence_,
          .index = static_cast<std::uint32_t>(instance.segment * each + number),
          .descriptor = descriptor_,
          .group = group_};
}

bool Execution::attempt_send(Instance& instance, const Action& action) {
  const Step& step = action.step;
  const Bytes bytes = readable(instance, step.source);
  if (!all_called() && (bytes.size() > kEager || step.kind == Step::Kind::store)) return false;
  ++traffic_.messages_sent;
  traffic_.bytes_sent += bytes.size();
  transport::Link& link = *mesh_.link(step.peer);
  const FrameHeader data = header(FrameType::data, step.peer, instance, action.number);
  if (step.kind == Step::Kind::store) {
    const MutableBytes window = peers_output(instance, step);
    if (!window.empty()) {
      const bool written = instance.stored_ahead == static_cast<int>(instance.round);
      if (!written) std::memcpy(window.data(), bytes.data(), bytes.size());
      link.send(header(FrameType::stored, step.peer, instance, action.number), {});
      return true;
    }
  }
  const std::size_t slot = slot_index(step.source);
  ++instance.reading[slot];
  ++instance.readers;
  link.send(data, bytes, this, (static_cast<std::uint64_t>(instance.segment) << kSlotBits) | slot);
  return true;
}

void Execution::sent(std::uint64_t cookie) {
  const auto found = instances_.find(static_cast<int>(cookie >> kSlotBits));
  if (found == instances_.end()) return;
  Instance& instance = *found->second;
  --instance.reading[cookie & ((std::uint64_t{1} << kSlotBits) - 1)];
  --instance.readers;
  auto advanced = advance(instance);
  if (advanced) advanced = advance_all();
  if (!advanced) mesh_.fail(advanced.error());
  else if (done()) on_done_();
}

Result<bool> Execution::attempt_receive(Instance& instance, const Action& action) {
  const Step& step = action.step;
  const auto found = instance.arrivals.find({step.peer, action.number});
  if (found == instance.arrivals.end() || !may_write(instance, step)) return false;
  Arrival arrival = std::move(found->second);
  instance.arrivals.erase(found);
  const Bytes bytes = arrival.owned.empty() ? arrival.bytes : Bytes(arrival.owned);
  if (arrival.kind == Arrival::Kind::borrowed && action.view_until >= 0) {
    instance.views[static_cast<std::size_t>(step.target.place)] = {bytes, arrival.header, step.peer, action.view_until};
    return true;
  }
  if (step.kind == Step::Kind::recv_reduce) {
    const Bytes operand = readable(instance, step.operand);
    const MutableBytes target = writable(instance, step.target);
    reduce(request_.call.op, request_.call.dtype, step.operand_is_left ? operand : bytes,
           step.operand_is_left ? bytes : operand, target);
    traffic_.bytes_reduced += target.size();
  } else if (arrival.kind == Arrival::Kind::payload || arrival.kind == Arrival::Kind::borrowed) {
    std::memcpy(writable(instance, step.target).data(), bytes.data(), bytes.size());
  }
  if (arrival.kind == Arrival::Kind::borrowed) mesh_.link(step.peer)->release(arrival.header);
  finish_write(instance, step);
  return true;
}

bool Execution::attempt_local(Instance& instance, const Action& action) {
  const Step& step = action.step;
  if (!may_write(instance, step)) return false;
  const Bytes source = readable(instance, step.source);
  if (step.kind == Step::Kind::copy) {
    const MutableBytes target = writable(instance, step.target);
    if (target.data() != source.data()) std::memcpy(target.data(), source.data(), source.size());
    finish_write(instance, step);
    return true;
  }
  traffic_.bytes_reduced += source.size();
  if (reduce_and_store(instance, action)) return true;
  reduce(request_.call.op, request_.call.dtype, source, readable(instance, step.operand), writable(instance, step.target));
  finish_write(instance, step);
  return true;
}

// The reduction and the stores of its result in one go. False, and nothing done, where a peer's memory is out of reach.
bool Execution::reduce_and_store(Instance& instance, const Action& action) {
  const Step& step = action.step;
  std::vector<MutableBytes> windows;
  for (const int i : action.stores) {
    const Step& store = request_.plan->rounds[instance.round + 1][static_cast<std::size_t>(i)].step;
    windows.push_back(peers_output(instance, store));
    if (windows.back().empty()) return false;
  }
  if (windows.empty() || !all_called()) return false;
  const Bytes left = readable(instance, step.source), right = readable(instance, step.operand);
  const MutableBytes target = writable(instance, step.target);
  const double factor = step.completes && request_.call.op == ReduceOp::average ? scale_factor() : 1.0;
  for (std::size_t at = 0; at < target.size(); at += kBlock) {
    const std::size_t length = std::min(kBlock, target.size() - at);
    const MutableBytes block = target.subspan(at, length);
    reduce(request_.call.op, request_.call.dtype, left.subspan(at, length), right.subspan(at, length), block);
    if (factor != 1.0) scale(request_.call.dtype, block, factor);
    for (const MutableBytes window : windows) std::memcpy(window.data() + at, block.data(), length);
  }
  give_view_back(instance, step.target);
  instance.stored_ahead = static_cast<int>(instance.round) + 1;
  return true;
}

MutableBytes Execution::peers_output(const Instance& instance, const Step& store) const {
  const auto& call = calls_[static_cast<std::size_t>(store.peer)];
  if (!call || call->output.segment == 0) return {};
  const Range range = instance.piece.chunks[static_cast<std::size_t>(store.target.chunk)];
  transport::Remote target = call->output;
  target.offset += (range.offset - request_.output_origin) * element_bytes_;
  return mesh_.link(store.peer)->window(target, range.count * element_bytes_);
}

// What was a view of the peer's memory is our own once it is written.
void Execution::give_view_back(Instance& instance, const Slot& slot) {
  if (slot.space != Slot::Space::scratch) return;
  auto& view = instance.views[static_cast<std::size_t>(slot.place)];
  if (view.until < 0) return;
  mesh_.link(view.peer)->release(view.header);
  view.until = -1;
}

void Execution::finish_write(Instance& instance, const Step& step) {
  give_view_back(instance, step.target);
  if (!step.completes || request_.call.op != ReduceOp::average) return;
  const double factor = scale_factor();
  if (factor != 1.0) scale(request_.call.dtype, writable(instance, step.target), factor);
}

// --- messages -----------------------------------------------------------------------------------------------------

MutableBytes Execution::place(int peer, const FrameHeader& header) {
  if (!request_.plan) return {};
  const auto& receives_from = request_.plan->receives[static_cast<std::size_t>(peer)];
  if (header.type != FrameType::data || receives_from.empty()) return {};
  const int segment = static_cast<int>(header.index / receives_from.size());
  const int number = static_cast<int>(header.index % receives_from.size());
  if (segment >= request_.segments || finished_[static_cast<std::size_t>(segment)]) return {};
  Instance& instance = activate(segment);
  const auto [round, index] = receives_from[static_cast<std::size_t>(number)];
  if (instance.round != static_cast<std::size_t>(round) || instance.done[static_cast<std::size_t>(index)]) return {};
  const Step& step = request_.plan->rounds[instance.round][static_cast<std::size_t>(index)].step;
  if (step.kind != Step::Kind::recv || !may_write(instance, step)) return {};
  return slot_bytes(instance, step.target) == header.length ? writable(instance, step.target) : MutableBytes();
}

Result<> Execution::received(int peer, const FrameHeader& header, Bytes payload, bool placed) {
  Arrival arrival;
  arrival.kind = header.type == FrameType::stored ? Arrival::Kind::stored
                 : placed                         ? Arrival::Kind::placed
                                                  : Arrival::Kind::payload;
  arrival.bytes = payload;
  return arrived(peer, header, std::move(arrival));
}

Result<> Execution::borrowed(int peer, const FrameHeader& header, Bytes payload) {
  Arrival arrival;
  arrival.kind = Arrival::Kind::borrowed;
  arrival.bytes = payload;
  arrival.header = header;
  return arrived(peer, header, std::move(arrival));
}

Result<> Execution::arrived(int peer, const FrameHeader& header, Arrival arrival) {
  const auto unexpected = [&](std::string_view why) {
    return Failure{Fault::io,
                   fmt::format("rank {} sent message {} of operation {}, {}: a bug, please report it", peer, header.index,
                               sequence_, why),
                   {peer}};
  };
  if (!request_.plan) return unexpected("which carries none");
  const auto& receives_from = request_.plan->receives[static_cast<std::size_t>(peer)];
  const std::size_t each = receives_from.size();
  if (each == 0 || header.index / each >= static_cast<std::size_t>(request_.segments)) return unexpected("which has no such");
  const int segment = static_cast<int>(header.index / each), number = static_cast<int>(header.index % each);
  if (finished_[static_cast<std::size_t>(segment)]) return unexpected("which it has sent before");
  Instance& instance = activate(segment);
  const auto [round, index] = receives_from[static_cast<std::size_t>(number)];
  const Step& step = request_.plan->rounds[static_cast<std::size_t>(round)][static_cast<std::size_t>(index)].step;
  const bool right_length = arrival.kind == Arrival::Kind::stored
                                ? step.kind == Step::Kind::recv && step.target.space == Slot::Space::output
                                : arrival.bytes.size() == slot_bytes(instance, step.target);
  if (!right_length || static_cast<std::size_t>(round) < instance.round) return unexpected("of another length than expected");
  const std::pair key{peer, number};
  if (!instance.arrivals.emplace(key, std::move(arrival)).second) return unexpected("which it has sent before");
  if (auto advanced = advance(instance); !advanced) return advanced;
  if (const auto still = instances_.find(segment); still != instances_.end()) {
    const auto waiting = still->second->arrivals.find(key);
    if (waiting != still->second->arrivals.end() && waiting->second.kind == Arrival::Kind::payload) {
      waiting->second.owned.assign(waiting->second.bytes.begin(), waiting->second.bytes.end());
    }
  }
  return advance_all();
}

}  // namespace paceline::collective
