// What the messages of one tensor in one step have in common, so that a rank which is in another
// step, or has other settings, is found out by the first of its messages.
#pragma once

#include <optional>

#include "paceline/core/compress/averaging.h"

namespace paceline::compress {

// Payloads that are not a codec's (PayloadFormat has those below 32).
constexpr std::uint8_t kVotes = 32;    // signs without a scale
constexpr std::uint8_t kIndices = 33;  // u32, ascending
constexpr std::uint8_t kBinnedSigns = 34;

struct Envelope {
  std::uint8_t format = 0;
  std::uint32_t tensor = 0;
  std::uint32_t step = 0;
  std::uint64_t elements = 0;  // of the whole tensor
};

// Where `slot`'s payload lies, before it is sealed.
MutableBytes payload_of(MutableBytes slot);

// Seals a message at the beginning of a slot of fixed length, its payload being there already.
// Nothing: an overflow, which needs no payload. REQUIRES: the slot is message_bytes() long, of this
// payload or a longer one.
void seal_in(MutableBytes slot, const Envelope& envelope, std::optional<std::size_t> payload_bytes);

// The payload that `sender` put into its slot; nothing: it had an overflow.
Result<std::optional<Bytes>> open_from(int sender, Bytes slot, const Envelope& envelope);

// For a payload that is wrong inside: says whose it is.
Failure blamed(int sender, Failure failure);

}  // namespace paceline::compress
