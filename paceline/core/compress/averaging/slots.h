// The messages of all ranks in an all_gather: one slot of fixed length for each, side by side.
#pragma once

#include "paceline/core/compress/averaging/envelope.h"

namespace paceline::compress {

class Slots {
 public:
  explicit Slots(const Part& part) : rank_(part.rank), ranks_(part.ranks) {}

  // Call it before each gathering: every slot gets room for a message with a payload of at most
  // `longest_payload` bytes.
  void resize(std::size_t longest_payload);

  // The room for this rank's payload.
  MutableBytes own_payload() { return payload_of(slot(rank_)); }
  // Seals this rank's message and returns the exchange that gathers all. No `payload_bytes` means
  // an overflow.
  Exchange gather(const Envelope& envelope, std::optional<std::size_t> payload_bytes);
  // Call it after the exchange. Returns true if no rank had an overflow; payload() is then valid.
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
