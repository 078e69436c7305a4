#include "paceline/core/transport/shared/ring.h"

#include <algorithm>
#include <cstring>

namespace paceline::transport {
namespace {

Failure corrupt() {
  return {Fault::io, "the shared memory between two ranks was overwritten", {}};
}

}  // namespace

RingChannel::RingChannel(MutableBytes region, int side)
    : pair_(*reinterpret_cast<RingPair*>(region.data())),
      side_(side),
      capacity_((region.size() - sizeof(RingPair)) / 2) {
  // The region was rounded up to whole pages.
  capacity_ = std::size_t{1} << (63 - __builtin_clzll(capacity_));
  std::byte* data = region.data() + sizeof(RingPair);
  out_data_ = data + static_cast<std::size_t>(side) * capacity_;
  in_data_ = data + static_cast<std::size_t>(1 - side) * capacity_;
}

Result<std::size_t> RingChannel::read(MutableBytes into) {
  RingCounters& ring = pair_.rings[1 - side_];
  const std::uint64_t available = ring.head.load(std::memory_order_acquire) - tail_;
  if (available > capacity_) return corrupt();
  const std::size_t count = std::min<std::size_t>(available, into.size());
  if (count == 0) return std::size_t{0};
  const std::size_t at = tail_ & (capacity_ - 1);
  const std::size_t first = std::min(count, capacity_ - at);
  std::memcpy(into.data(), in_data_ + at, first);
  std::memcpy(into.data() + first, in_data_, count - first);
  tail_ += count;
  ring.tail.store(tail_, std::memory_order_release);
  moved_ = true;
  return count;
}

Result<std::size_t> RingChannel::write(std::span<const Bytes> pieces) {
  RingCounters& ring = pair_.rings[side_];
  const std::uint64_t used = head_ - ring.tail.load(std::memory_order_acquire);
  if (used > capacity_) return corrupt();
  std::size_t room = capacity_ - used, written = 0;
  for (const Bytes piece : pieces) {
    const std::size_t count = std::min(room, piece.size());
    if (count == 0) continue;
    const std::size_t at = head_ & (capacity_ - 1);
    const std::size_t first = std::min(count, capacity_ - at);
    std::memcpy(out_data_ + at, piece.data(), first);
    std::memcpy(out_data_, piece.data() + first, count - first);
    head_ += count;
    written += count;
    room -= count;
  }
  if (written > 0) {
    ring.head.store(head_, std::memory_order_release);
    moved_ = true;
  }
  return written;
}

void RingChannel::set_asleep(bool asleep) {
  pair_.sides[side_].asleep.store(asleep ? 1 : 0, std::memory_order_seq_cst);
}

bool RingChannel::peer_asleep() const {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return pair_.sides[1 - side_].asleep.load(std::memory_order_seq_cst) != 0;
}

}  // namespace paceline::transport
