// The fields that all messages of one tensor in one step share, so that the first message of a rank
// in another step, or with other settings, reveals it; and the slots in which they are gathered.
#pragma once

#include <optional>

#include "paceline/core/compress/averaging/averaging.h"

namespace paceline::compress {

// Formats of payloads that no codec makes (those of PayloadFormat are below 32).
constexpr std::uint8_t kVotes = 32;    // signs without a scale
constexpr std::uint8_t kIndices = 33;  // u32, ascending
constexpr std::uint8_t kBinnedSigns = 34;

struct Envelope {
  std::uint8_t format = 0;
  std::uint32_t tensor = 0;
  std::uint32_t step = 0;
  std::uint64_t elements = 0;  // of the whole tensor
};

// The room of the payload in `slot`, before the message is sealed.
MutableBytes payload_of(MutableBytes slot);

// Seals a message at the beginning of a slot of fixed length; its payload is already there. No
// `payload_bytes` means an overflow, which needs no payload. REQUIRES: slot.size() is
// message_bytes() of this payload or of a longer one.
void seal_in(MutableBytes slot, const Envelope& envelope, std::optional<std::size_t> payload_bytes);

// The payload that `sender` put into its slot, or nothing if it had an overflow.
Result<std::optional<Bytes>> open_from(int sender, Bytes slot, const Envelope& envelope);

// Adds to the failure of a malformed payload which rank sent it.
Failure blamed(int sender, Failure failure);

// The messages of all ranks in an all_gather: one slot of fixed length for each, side by side.
class Slots {
 public:
  explicit Slots(const AveragedTensor& part) : rank_(part.rank), ranks_(part.ranks) {}

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
