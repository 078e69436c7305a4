#include "paceline/core/collective/staging/staged_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "paceline/core/base/check.h"

namespace paceline::collective {
namespace {

constexpr std::size_t kPlaceAlignment = 4096;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kPlaceAlignment - 1) / kPlaceAlignment * kPlaceAlignment;
}

bool overlap(Bytes one, Bytes other) {
  return one.data() < other.data() + other.size() && other.data() < one.data() + one.size();
}

}  // namespace

StagedCall::StagedCall(std::shared_ptr<StagingArea> area, const DeviceBuffers& buffers)
    : area_(std::move(area)), buffers_(buffers) {
  check_memory();
  place_ = area_->take(0);
  value_ = ++place_->value;
  mark_call();
}

StagedCall::~StagedCall() {
  settle();
  release();
  if (host_) area_->give_back(std::move(host_));
  area_->give_back(std::move(place_));
}

void StagedCall::check_memory() const {
  for (const ConstBuffer buffer : {buffers_.input, ConstBuffer(buffers_.output)}) {
    if (buffer.count == 0) continue;
    const std::string complaint = device().complaint_about(buffer.bytes());
    PACELINE_CHECK(complaint.empty(),
                   "a buffer that is said to lie in the memory of {} does not: {}", device().name(),
                   complaint);
  }
}

void StagedCall::mark_call() {
  const std::set<device::Stream> streams = {buffers_.input.memory.stream,
                                            buffers_.output.memory.stream};
  for (const device::Stream stream : streams)
    if (auto done = place_->called[marks_++]->record(stream); !done) throw Error(done.error());
}

Result<> StagedCall::hold_behind_call(device::Stream stream) const {
  for (std::size_t i = 0; i < marks_; ++i)
    if (auto done = place_->called[i]->hold(stream); !done) return done;
  return Done{};
}

// Buffers that overlap on the device do so on the host, in the same way.
void StagedCall::place_buffers(bool apart) {
  const Bytes in = buffers_.input.bytes(), out = ConstBuffer(buffers_.output).bytes();
  const bool together = !apart && !buffers_.must_be_apart && overlap(in, out);
  const std::byte* const first = std::min(in.data(), out.data());
  const std::size_t in_at = together ? static_cast<std::size_t>(in.data() - first) : 0;
  const std::size_t out_at =
      together ? static_cast<std::size_t>(out.data() - first) : aligned(in.size());
  host_ = area_->take(std::max(in_at + in.size(), out_at + out.size()));
  std::byte* const memory = host_->memory.data();
  input_ = {in.empty() ? nullptr : memory + in_at, buffers_.input.count, buffers_.input.dtype};
  output_ = {out.empty() ? nullptr : memory + out_at, buffers_.output.count, buffers_.output.dtype};
}

void StagedCall::bring(std::vector<StagedPiece> pieces) {
  if (pieces.empty()) pieces.push_back({{{0, input_.count}}, {{0, output_.count}}});
  if (!buffers_.brings_input)
    for (StagedPiece& piece : pieces) piece.input.clear();
  arrivals_ = buffers_.brings_input ? pieces.size() : 1;
  pieces_ = StagedPieces(std::move(pieces));
  area_->make_events(*host_, arrivals_ - 1);
  if (auto begun = copy_input(); !begun) throw Error(begun.error());
}

Result<> StagedCall::copy_input() {
  if (buffers_.brings_input && input_.count > 0) {  // else nothing needs to wait for the callers
    if (auto held = hold_behind_call(area_->down()); !held) return held;
    for (std::size_t i = 0; i < arrivals_; ++i) {
      if (auto copied = copy_down(pieces_[i]); !copied) return copied;
      if (auto recorded = arrival(i).record(area_->down()); !recorded) return recorded;
    }
    return Done{};
  }
  return host_->here->record(area_->down());
}

Result<> StagedCall::copy_down(const StagedPiece& piece) {
  const std::size_t element = size_of(input_.dtype);
  for (const ElementRange& range : piece.input) {
    if (range.count == 0) continue;
    const std::size_t at = range.offset * element;
    auto copied = device().copy(const_cast<std::byte*>(input_.data) + at, buffers_.input.data + at,
                                range.count * element, area_->down());
    if (!copied) return copied;
  }
  return Done{};
}

// The last one is that of the whole input.
device::Event& StagedCall::arrival(std::size_t piece) const {
  return piece + 1 < arrivals_ ? *host_->pieces_here[piece] : *host_->here;
}

// --- streams of callers --------------------------------------------------------------------------

Result<> StagedCall::order(device::Stream stream) {
  auto& events = place_->ordered;
  if (ordered_ == events.size()) {
    auto made = device().make_event();
    if (!made) return made.error();
    events.push_back(std::move(made).value());
  }
  if (auto held = device().hold_until(stream, place_->word(), value_); !held) return held;
  return events[ordered_++]->record(stream);
}

void StagedCall::release() {
  if (place_->word().load(std::memory_order_relaxed) < value_)
    place_->word().store(value_, std::memory_order_release);
}

void let_order(Work::State& work, std::shared_ptr<StagedCall> call) {
  work.runs_on_device([call](void* stream) { return call->order(stream); },
                      [call] { call->release(); });
}

// --- the driver ----------------------------------------------------------------------------------

Result<bool> StagedCall::has_passed(Moment moment) {
  switch (moment) {
    case Moment::called:
      for (std::size_t i = 0; i < marks_; ++i) {
        auto passed = place_->called[i]->has_passed();
        if (!passed || !*passed) return passed;
      }
      return true;
    case Moment::input:
      while (arrived_ < arrivals_) {
        auto passed = arrival(arrived_).has_passed();
        if (!passed || !*passed) return passed;
        ++arrived_;
      }
      return true;
    case Moment::sum: return place_->here->has_passed();
    case Moment::output: return host_->returned->has_passed();
  }
  return true;
}

Result<> StagedCall::begin_sum(const device::Reduction& reduction) {
  if (auto given = device().reduce(reduction, area_->sums()); !given) return given;
  return place_->here->record(area_->sums());
}

Result<> StagedCall::copy_up(const StagedPiece& piece) {
  const std::size_t element = size_of(output_.dtype);
  for (const ElementRange& range : piece.output) {
    if (!buffers_.takes_output || range.count == 0) continue;
    const std::size_t at = range.offset * element;
    auto copied = device().copy(buffers_.output.data + at, output_.data + at, range.count * element,
                                area_->up());
    if (!copied) return copied;
  }
  return Done{};
}

// The output must not change before what its stream was given is done. The stream waits no earlier:
// the call behind may be ordered behind this one.
Result<> StagedCall::give_back(const std::vector<std::size_t>& pieces) {
  if (!std::exchange(up_is_held_, true))
    if (auto held = hold_behind_call(area_->up()); !held) return held;
  for (const std::size_t piece : pieces)
    if (auto copied = copy_up(pieces_[piece]); !copied) return copied;
  return host_->returned->record(area_->up());
}

Result<> StagedCall::output_is_final(ElementRange part) {
  const std::vector<std::size_t> ended = pieces_.ended_by(part);
  return ended.empty() ? Done{} : give_back(ended);
}

Result<> StagedCall::begin_return() {
  return give_back(pieces_.rest());
}

void StagedCall::settle() {
  if (!place_->is_quiet()) area_->settle(*place_);
  if (host_) area_->settle(*host_);
}

}  // namespace paceline::collective
