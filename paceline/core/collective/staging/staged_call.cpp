#include "paceline/core/collective/staging/staged_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "paceline/core/base/check.h"

namespace paceline::collective {
namespace {

constexpr std::size_t kAlignment = 4096;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

bool overlap(Bytes one, Bytes other) {
  return one.data() < other.data() + other.size() && other.data() < one.data() + one.size();
}

}  // namespace

StagedCall::StagedCall(std::shared_ptr<StagingArea> area, const DeviceBuffers& buffers)
    : area_(std::move(area)), buffers_(buffers) {
  check_memory();
  place_buffers();
  if (auto begun = begin_copies(); !begun) {
    settle();
    area_->give_back(std::move(place_));
    throw Error(begun.error());
  }
}

StagedCall::~StagedCall() {
  settle();
  area_->give_back(std::move(place_));
}

void StagedCall::check_memory() const {
  for (const ConstBuffer buffer : {buffers_.input, ConstBuffer(buffers_.output)}) {
    if (buffer.count == 0) continue;
    const std::string complaint = area_->device().complaint_about(buffer.bytes());
    PACELINE_CHECK(complaint.empty(),
                   "a buffer that is said to lie in the memory of {} does not: {}",
                   area_->device().name(), complaint);
  }
}

// Buffers that overlap on the device do so on the host, in the same way.
void StagedCall::place_buffers() {
  const Bytes in = buffers_.input.bytes(), out = ConstBuffer(buffers_.output).bytes();
  const bool together = !buffers_.must_be_apart && overlap(in, out);
  const std::byte* const first = std::min(in.data(), out.data());
  const std::size_t in_at = together ? static_cast<std::size_t>(in.data() - first) : 0;
  const std::size_t out_at =
      together ? static_cast<std::size_t>(out.data() - first) : aligned(in.size());
  place_ = area_->take(std::max(in_at + in.size(), out_at + out.size()));
  std::byte* const host = place_->memory.data();
  input_ = {in.empty() ? nullptr : host + in_at, buffers_.input.count, buffers_.input.dtype};
  output_ = {out.empty() ? nullptr : host + out_at, buffers_.output.count, buffers_.output.dtype};
}

// The output, too, must not change before what the caller's streams were given is done.
Result<> StagedCall::begin_copies() {
  const std::set<device::Stream> streams = {buffers_.input.memory.stream,
                                            buffers_.output.memory.stream};
  for (const device::Stream stream : streams) {
    if (auto done = place_->called->record(stream); !done) return done;
    for (const device::Stream own : {area_->down(), area_->up()})
      if (auto done = place_->called->hold(own); !done) return done;
  }
  if (buffers_.brings_input && input_.count > 0) {
    if (auto done = area_->device().copy(const_cast<std::byte*>(input_.data), buffers_.input.data,
                                         input_.size_bytes(), area_->down());
        !done)
      return done;
  }
  return place_->here->record(area_->down());
}

Result<bool> StagedCall::look_for_input() {
  if (is_here_) return true;
  auto passed = place_->here->has_passed();
  if (passed) is_here_ = *passed;
  return passed;
}

Result<> StagedCall::begin_return() {
  if (buffers_.takes_output && output_.count > 0) {
    if (auto done = area_->device().copy(buffers_.output.data, output_.data, output_.size_bytes(),
                                         area_->up());
        !done)
      return done;
  }
  return place_->returned->record(area_->up());
}

Result<bool> StagedCall::has_returned() {
  return place_->returned->has_passed();
}

void StagedCall::settle() {
  area_->settle(*place_);
}

}  // namespace paceline::collective
