#include "paceline/core/compress/averaging/envelope.h"

#include <fmt/format.h>

#include "paceline/core/base/check.h"
#include "paceline/core/compress/payload/message.h"

namespace paceline::compress {
namespace {

Failure stranger(int sender, std::string_view what, std::uint64_t expected, std::uint64_t got) {
  return {Fault::mismatch,
          fmt::format("rank {} sent a compressed gradient of {} {} where {} {} was expected; give "
                      "all ranks the same model and the same compression",
                      sender, what, got, what, expected),
          {sender}};
}

}  // namespace

MutableBytes payload_of(MutableBytes slot) {
  return slot.subspan(MessageHeader::kBytes);
}

void seal_in(MutableBytes slot, const Envelope& envelope,
             std::optional<std::size_t> payload_bytes) {
  const std::size_t bytes = payload_bytes.value_or(0);
  PACELINE_CHECK(message_bytes(bytes) <= slot.size() && bytes <= 0xffffffff,
                 "{} bytes of payload in a slot of {} bytes", bytes, slot.size());
  seal({.codec = envelope.format,
        .dtype = Dtype::f32,
        .flags = payload_bytes ? std::uint16_t{0} : MessageHeader::kOverflow,
        .tensor = envelope.tensor,
        .step = envelope.step,
        .elements = envelope.elements,
        .payload_bytes = static_cast<std::uint32_t>(bytes)},
       slot.first(message_bytes(bytes)));
}

Result<std::optional<Bytes>> open_from(int sender, Bytes slot, const Envelope& envelope) {
  const auto message = open(slot);
  if (!message) return blamed(sender, message.error());
  const MessageHeader& header = message.value().header;
  if (header.codec != envelope.format)
    return stranger(sender, "format", envelope.format, header.codec);
  if (header.dtype != Dtype::f32) {
    return stranger(sender, "element type", static_cast<std::uint64_t>(Dtype::f32),
                    static_cast<std::uint64_t>(header.dtype));
  }
  if (header.tensor != envelope.tensor)
    return stranger(sender, "tensor", envelope.tensor, header.tensor);
  if (header.step != envelope.step) return stranger(sender, "step", envelope.step, header.step);
  if (header.elements != envelope.elements)
    return stranger(sender, "length", envelope.elements, header.elements);
  if ((header.flags & MessageHeader::kOverflow) != 0) return std::optional<Bytes>();
  return std::optional<Bytes>(message.value().payload);
}

Failure blamed(int sender, Failure failure) {
  failure.what = fmt::format("from rank {}: {}", sender, failure.what);
  failure.ranks = {sender};
  return failure;
}

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
