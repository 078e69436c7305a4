#include "paceline/core/collective/staging/staged_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

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
  const bool together = !apart && overlap(in, out);
  const std::byte* const first = std::min(in.data(), out.data());
  const std::size_t in_at = together ? static_cast<std::size_t>(in.data() - first) : 0;
  const std::size_t out_at =
      together ? static_cast<std::size_t>(out.data() - first) : aligned(in.size());
  host_ = area_->take(std::max(in_at + in.size(), out_at + out.size()));
  std::byte* const memory = host_->memory.data();
  input_ = {in.empty() ? nullptr : memory + in_at, buffers_.input.count, buffers_.input.dtype};
  output_ = {out.empty() ? nullptr : memory + out_at, buffers_.output.count, buffers_.output.dtype};
}

Result<> StagedCall::copy_input() {
  if (buffers_.brings_input && input_.count > 0) {  // else nothing needs to wait for the callers
    if (auto held = hold_behind_call(area_->down()); !held) return held;
    auto copied = device().copy(const_cast<std::byte*>(input_.data), buffers_.input.data,
                                input_.size_bytes(), area_->down());
    if (!copied) return copied;
  }
  return host_->here->record(area_->down());
}

void StagedCall::stage(bool apart) {
  place_buffers(apart || buffers_.must_be_apart);
  is_staged_ = true;
  if (auto begun = copy_input(); !begun) throw Error(begun.error());
}

// --- streams of callers --------------------------------------------------------------------------

Result<> StagedCall::order(device::Stream stream) {
  if (auto held = device().hold_until(stream, place_->word(), value_); !held) return held;
  return place_->ordered->record(stream);
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
    case Moment::input: {
      if (is_here_) return true;
      auto passed = host_->here->has_passed();
      if (passed) is_here_ = *passed;
      return passed;
    }
    case Moment::sum: return place_->here->has_passed();
    case Moment::output: return host_->returned->has_passed();
  }
  return true;
}

Result<> StagedCall::begin_sum(const device::Reduction& reduction) {
  if (auto given = device().reduce(reduction, area_->sums()); !given) return given;
  return place_->here->record(area_->sums());
}

// The output must not change before what its stream was given is done. The stream waits no earlier:
// the call behind may be ordered behind this one.
Result<> StagedCall::begin_return() {
  if (auto held = hold_behind_call(area_->up()); !held) return held;
  if (buffers_.takes_output && output_.count > 0) {
    auto copied =
        device().copy(buffers_.output.data, output_.data, output_.size_bytes(), area_->up());
    if (!copied) return copied;
  }
  return host_->returned->record(area_->up());
}

void StagedCall::settle() {
  if (!place_->is_quiet()) area_->settle(*place_);
  if (host_) area_->settle(*host_);
}

}  // namespace paceline::collective
