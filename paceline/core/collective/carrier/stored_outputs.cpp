#include "paceline/core/collective/carrier/stored_outputs.h"

#include <algorithm>

namespace paceline::collective {
namespace {

// The part of `bytes` bytes from `offset` on that is written, and the parts before and after it.
struct Parts {
  std::size_t written, head, tail;
};
Parts without_edges(std::uint64_t offset, std::size_t bytes, transport::Extent writable) {
  const transport::Extent part{std::max(offset, writable.begin),
                               std::min(offset + bytes, writable.end)};
  if (part.is_empty()) return {0, 0, 0};
  return {part.size(), part.begin - offset, offset + bytes - part.end};
}

}  // namespace

// The place of the chunk in the peer's output: its beginning if the output holds only that chunk,
// else the place that it has in ours.
StoredOutputs::Window StoredOutputs::of_peer(const Segment& segment, const Step& store) const {
  const auto& call = agreement_.record().call_of(store.peer);
  if (!call || call->output.place.segment == 0) return {};
  const Operation operation = request_.call.operation;
  const bool own_chunk_only =
      operation == Operation::reduce_scatter || operation == Operation::scatter;
  const std::size_t begin =
      own_chunk_only
          ? 0
          : request_.output_chunks().chunks[static_cast<std::size_t>(store.target.chunk)].offset;
  transport::Remote target = call->output.place;
  target.offset += (begin + segment.begin_in(store.target.chunk)) * size_of(request_.call.dtype);
  const auto [written, head, tail] =
      without_edges(target.offset, segment.slot_bytes(store.target), call->output.writable);
  if (written == 0) return {};
  target.offset += head;
  return {members_.link(store.peer)->window(target, written), head, tail};
}

StoredOutputs::Window StoredOutputs::own(Segment& segment, const Slot& slot) const {
  const MutableBytes target = segment.writable(slot);
  const auto& lent = agreement_.shared_output();
  if (!lent) return {target, 0, 0};
  const auto offset = static_cast<std::size_t>(target.data() - request_.output.data);
  const auto [written, head, tail] =
      without_edges(lent->place.offset + offset, target.size(), lent->writable);
  return {target, head, tail};
}

void StoredOutputs::take_edges(const Window& output, Bytes edges) {
  std::ranges::copy(edges.first(output.head), output.bytes.begin());
  std::ranges::copy(edges.last(output.tail),
                    output.bytes.end() - static_cast<std::ptrdiff_t>(output.tail));
}

}  // namespace paceline::collective
