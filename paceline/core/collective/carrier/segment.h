// One segment of a collective in flight: how far its program has come, and where its slots lie.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "paceline/core/collective/call/request.h"
#include "paceline/core/transport/frame/frame.h"

namespace paceline::collective {

// A message that is here but not yet taken.
struct Arrival {
  enum class Kind : std::uint8_t { payload, placed, stored, borrowed } kind = Kind::payload;
  Bytes bytes;                    // payload, borrowed
  std::vector<std::byte> owned;   // payload that outlived its frame
  transport::FrameHeader header;  // borrowed: to give it back
};

// Scratch memory, kept from segment to segment of one operation.
struct ScratchPool {
  std::size_t bytes = 0;  // of one place
  std::vector<std::unique_ptr<std::byte[]>> free;
};

class Segment {
 public:
  // `request` and `pool` outlive it; the scratch goes back to the pool.
  Segment(const Request& request, int number, bool wide_sums, ScratchPool& pool);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  std::size_t slot_bytes(const Slot& slot) const;
  Bytes readable(const Slot& slot) const;
  MutableBytes writable(const Slot& slot);
  // The same as operands and target of a reduction; `wide`: a partial sum that is held in f32.
  ConstBuffer operand(const Slot& slot, bool wide) const;
  Buffer sum(const Slot& slot, bool wide);

  // The element of output chunk `chunk` at which this segment's piece begins.
  std::size_t begin_in(int chunk) const;

  // Sends that still read a slot.
  std::uint16_t& readers(std::size_t slot) { return reading_[slot]; }
  // Slots that may be the same memory have the same number.
  std::size_t slot_number(const Slot& slot) const;

  // The contents of a scratch place may really be the peer's memory, until the end of a round.
  struct View {
    Bytes bytes;
    transport::FrameHeader header;
    int peer = -1;
    int until = -1;  // round; -1: none
  };
  View& view(const Slot& slot) { return views_[static_cast<std::size_t>(slot.place)]; }
  const View& view(const Slot& slot) const { return views_[static_cast<std::size_t>(slot.place)]; }
  std::vector<View>& views() { return views_; }

  const int number;
  std::size_t round = 0;
  std::vector<bool> done;  // by action of the round
  int all_readers = 0;
  int stored_ahead = -1;  // the round whose stores a reduction has written already
  std::map<std::pair<int, int>, Arrival> arrivals;  // by (peer, number)

 private:
  const Partition& output() const { return other_output_.chunks.empty() ? input_ : other_output_; }
  const ElementRange& range(const Partition& pieces, const Slot& slot) const {
    return pieces.chunks[static_cast<std::size_t>(slot.chunk)];
  }

  const Request& request_;
  const bool in_place_;
  const bool wide_sums_;
  ScratchPool& pool_;
  const Partition input_;
  const Partition other_output_;  // empty: as the input
  std::vector<std::uint16_t> reading_;
  std::vector<View> views_;                            // by place
  std::vector<std::unique_ptr<std::byte[]>> scratch_;  // by place
};

}  // namespace paceline::collective
