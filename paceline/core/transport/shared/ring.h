// Two byte rings in memory that two sides share: one for each direction, with one writer and one
// reader each.
//
// INVARIANTS: head counts bytes ever written, tail bytes ever read; tail <= head <= tail +
// capacity. Each side keeps its own counter in private memory and only publishes it: what the peer
// publishes is checked, never trusted.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "paceline/core/transport/socket/byte_channel.h"

namespace paceline::transport {

struct alignas(64) RingCounters {
  alignas(64) std::atomic<std::uint64_t> head;
  alignas(64) std::atomic<std::uint64_t> tail;
};

// At the start of the shared region; side 0 writes ring 0 and reads ring 1.
struct RingPair {
  RingCounters rings[2];
  struct alignas(64) Side {
    std::atomic<std::uint32_t> asleep;  // side s sleeps: ring its bell after moving a counter
    alignas(64) std::atomic<std::uint32_t> failed;  // memory_offers.h
    alignas(64) std::atomic<std::uint32_t> uses;
  } sides[2];
};

// Bytes of a region that holds both rings. REQUIRES: capacity is a power of two.
constexpr std::size_t ring_region_bytes(std::size_t capacity) {
  return sizeof(RingPair) + 2 * capacity;
}

class RingChannel final : public ByteChannel {
 public:
  // `region` is zeroed at first, and outlives the channel. side: 0 or 1.
  RingChannel(MutableBytes region, int side);

  Result<std::size_t> read(MutableBytes into) override;
  Result<std::size_t> write(std::span<const Bytes> pieces) override;

  void set_asleep(bool asleep);
  bool peer_asleep() const;
  // Whether a counter was moved since the last call, so that a sleeping peer must be woken.
  bool take_moved() { return std::exchange(moved_, false); }

 private:
  RingPair& pair_;
  int side_;
  std::size_t capacity_;
  std::byte* out_data_;
  const std::byte* in_data_;
  std::uint64_t head_ = 0;  // of the outgoing ring
  std::uint64_t tail_ = 0;  // of the incoming ring
  bool moved_ = false;
};

}  // namespace paceline::transport
