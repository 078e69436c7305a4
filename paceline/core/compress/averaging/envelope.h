// The fields that all messages of one tensor in one step share, so that the first message of a rank
// in another step, or with other settings, reveals it.
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

}  // namespace paceline::compress
