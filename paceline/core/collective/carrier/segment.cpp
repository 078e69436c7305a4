#include "paceline/core/collective/carrier/segment.h"

#include <algorithm>

namespace paceline::collective {
namespace {

// Input and output may be the same memory. Where the own chunk may lie in the other buffer, they
// are taken to be.
bool may_be_in_place(const Request& request) {
  switch (request.call.operation) {
    case Operation::all_gather:
    case Operation::reduce_scatter:
    case Operation::gather:
    case Operation::scatter: return true;
    default: return request.scale_input || request.input.data == request.output.data;
  }
}

}  // namespace

Segment::Segment(const Request& request, int segment, bool wide_sums, ScratchPool& pool)
    : number(segment),
      request_(request),
      in_place_(may_be_in_place(request)),
      wide_sums_(wide_sums),
      pool_(pool),
      input_(request.cut(request.input_chunks, segment)),
      other_output_(request.cut(request.other_output_chunks, segment)),
      reading_(static_cast<std::size_t>(2 * request.plan->chunks + request.plan->scratch_places)),
      views_(static_cast<std::size_t>(request.plan->scratch_places)),
      scratch_(static_cast<std::size_t>(request.plan->scratch_places)) {
  for (auto& place : scratch_) {
    if (pool_.free.empty()) break;
    place = std::move(pool_.free.back());
    pool_.free.pop_back();
  }
  if (!request.plan->rounds.empty()) done.assign(request.plan->rounds[0].size(), false);
}

Segment::~Segment() {
  for (auto& place : scratch_) {
    if (place) pool_.free.push_back(std::move(place));
  }
}

std::size_t Segment::slot_number(const Slot& slot) const {
  const auto chunks = static_cast<std::size_t>(request_.plan->chunks),
             chunk = static_cast<std::size_t>(slot.chunk);
  switch (slot.space) {
    case Slot::Space::input: return in_place_ ? chunks + chunk : chunk;
    case Slot::Space::output: return chunks + chunk;
    case Slot::Space::scratch: return 2 * chunks + static_cast<std::size_t>(slot.place);
  }
  return 0;
}

std::size_t Segment::slot_bytes(const Slot& slot) const {
  return range(input_, slot).count * size_of(request_.call.dtype);
}

std::size_t Segment::begin_in(int chunk) const {
  const auto c = static_cast<std::size_t>(chunk);
  return output().chunks[c].offset - request_.output_chunks().chunks[c].offset;
}

Bytes Segment::readable(const Slot& slot) const {
  const std::size_t element = size_of(request_.call.dtype), bytes = slot_bytes(slot);
  switch (slot.space) {
    case Slot::Space::input:
      return {request_.input.data + range(input_, slot).offset * element, bytes};
    case Slot::Space::output:
      return {request_.output.data + range(output(), slot).offset * element, bytes};
    case Slot::Space::scratch: break;
  }
  const auto place = static_cast<std::size_t>(slot.place);
  if (views_[place].until >= 0) return views_[place].bytes;
  return {scratch_[place].get(), bytes};
}

MutableBytes Segment::writable(const Slot& slot) {
  const std::size_t bytes = slot_bytes(slot);
  if (slot.space == Slot::Space::output) {
    return {request_.output.data + range(output(), slot).offset * size_of(request_.call.dtype),
            bytes};
  }
  auto& own = scratch_[static_cast<std::size_t>(slot.place)];
  if (!own)
    own = std::make_unique_for_overwrite<std::byte[]>(std::max<std::size_t>(pool_.bytes, 1));
  return {own.get(), bytes};
}

ConstBuffer Segment::operand(const Slot& slot, bool wide) const {
  return {readable(slot).data(), range(input_, slot).count,
          wide && wide_sums_ ? Dtype::f32 : request_.call.dtype};
}

Buffer Segment::sum(const Slot& slot, bool wide) {
  return {writable(slot).data(), range(input_, slot).count,
          wide && wide_sums_ ? Dtype::f32 : request_.call.dtype};
}

}  // namespace paceline::collective
