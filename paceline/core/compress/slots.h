// The messages of all ranks in an all_gather: one slot of fixed length each, side by side.
#pragma once

#include "paceline/core/compress/envelope.h"

namespace paceline::compress {

class Slots {
 public:
  explicit Slots(const Part& part) : rank_(part.rank), ranks_(part.ranks) {}

  // Before each gathering: every slot holds a message with a payload of at most so many bytes.
  void resize(std::size_t longest_payload);

  // Where the own payload is to be written.
  MutableBytes own_payload() { return payload_of(slot(rank_)); }
  // Seals it (nothing: an overflow) and has it gathered.
  Exchange gather(const Envelope& envelope, std::optional<std::size_t> payload_bytes);
  // Afterwards: whether no rank had an overflow; all payloads are then there to be read.
  Result<bool> open(const Envelope& envelope);
  Bytes payload(int rank) const { return payloads_[static_cast<std::size_t>(rank)]; }

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

 private:
  MutableBytes slot(int rank);

  const int rank_;
  const int ranks_;
  std::size_t slot_bytes_ = 0;
  std::vector<std::byte> bytes_;
  std::vector<Bytes> payloads_;
};

}  // namespace paceline::compress
