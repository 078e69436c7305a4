#include "paceline/core/compress/averaging/slots.h"

#include "paceline/core/compress/payload/message.h"

namespace paceline::compress {

void Slots::resize(std::size_t longest_payload) {
  slot_bytes_ = message_bytes(longest_payload);
  bytes_.resize(slot_bytes_ * static_cast<std::size_t>(ranks_));
}

MutableBytes Slots::slot(int rank) {
  return MutableBytes(bytes_).subspan(static_cast<std::size_t>(rank) * slot_bytes_, slot_bytes_);
}

Exchange Slots::gather(const Envelope& envelope, std::optional<std::size_t> payload_bytes) {
  seal_in(slot(rank_), envelope, payload_bytes);
  return {.kind = Exchange::Kind::all_gather,
          .input = const_buffer_of(slot(rank_)),
          .output = buffer_of(bytes_)};
}

Result<bool> Slots::open(const Envelope& envelope) {
  bool all_there = true;
  payloads_.assign(static_cast<std::size_t>(ranks_), {});
  for (int rank = 0; rank < ranks_; ++rank) {
    const auto payload = open_from(rank, slot(rank), envelope);
    if (!payload) return payload.error();
    if (payload.value()) payloads_[static_cast<std::size_t>(rank)] = *payload.value();
    else all_there = false;
  }
  return all_there;
}

}  // namespace paceline::compress
