#include "paceline/core/compress/payload/message.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "paceline/core/base/check.h"
#include "paceline/core/base/crc32c.h"

namespace paceline::compress {
namespace {

constexpr std::uint32_t kMessageMagic = 0x31435444;  // "DTC1"

// The layout on the wire.
struct HeaderFields {
  std::uint32_t magic;
  std::uint8_t codec;
  std::uint8_t dtype;
  std::uint16_t flags;
  std::uint32_t tensor;
  std::uint32_t step;
  std::uint64_t elements;
  std::uint32_t payload_bytes;
  std::uint32_t checksum;
};
static_assert(sizeof(HeaderFields) == MessageHeader::kBytes);
static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

constexpr std::size_t kSummed = offsetof(HeaderFields, checksum);

Failure malformed_message(std::string what) {
  return {
      Fault::io, "a message of compressed gradients is malformed_message: " + std::move(what), {}};
}

}  // namespace

void seal(const MessageHeader& header, MutableBytes message) {
  PACELINE_CHECK(message.size() == message_bytes(header.payload_bytes),
                 "a message with {} bytes of payload in {} bytes", header.payload_bytes,
                 message.size());
  HeaderFields fields{
      kMessageMagic,   header.codec,         static_cast<std::uint8_t>(header.dtype),
      header.flags,    header.tensor,        header.step,
      header.elements, header.payload_bytes, 0};
  const MutableBytes payload = message.subspan(sizeof fields, header.payload_bytes);
  fields.checksum = crc32c(payload, crc32c(std::as_bytes(std::span(&fields, 1)).first(kSummed)));
  std::memcpy(message.data(), &fields, sizeof fields);
  const MutableBytes padding = message.subspan(sizeof fields + payload.size());
  std::fill(padding.begin(), padding.end(), std::byte{0});
}

Result<Message> open(Bytes buffer) {
  HeaderFields fields;
  if (buffer.size() < sizeof fields)
    return malformed_message(fmt::format("{} bytes are too few for its header", buffer.size()));
  std::memcpy(&fields, buffer.data(), sizeof fields);
  if (fields.magic != kMessageMagic)
    return malformed_message(
        fmt::format("it begins with {:#010x} instead of {:#010x}", fields.magic, kMessageMagic));
  const Bytes behind = buffer.subspan(sizeof fields);
  if (fields.payload_bytes > behind.size()) {
    return malformed_message(fmt::format("it tells of {} bytes of payload, and {} follow",
                                         fields.payload_bytes, behind.size()));
  }
  const Bytes payload = behind.first(fields.payload_bytes);
  const std::uint32_t checksum = crc32c(payload, crc32c(buffer.first(kSummed)));
  if (checksum != fields.checksum) {
    return malformed_message(fmt::format("its checksum is {:#010x}, and its bytes have {:#010x}",
                                         fields.checksum, checksum));
  }
  if (!is_known(static_cast<Dtype>(fields.dtype)))
    return malformed_message(fmt::format("there is no element type {}", fields.dtype));
  const std::size_t all = std::min(message_bytes(payload.size()), buffer.size());
  return Message{{fields.codec, static_cast<Dtype>(fields.dtype), fields.flags, fields.tensor,
                  fields.step, fields.elements, fields.payload_bytes},
                 payload,
                 buffer.subspan(all)};
}

}  // namespace paceline::compress
