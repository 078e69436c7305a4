// The message that carries one compressed tensor: a header of 32 bytes, then the payload
// (docs/compression/formats.md).
//
//   0 u32 magic 'DTC1'   4 u8 codec   5 u8 dtype   6 u16 flags   8 u32 tensor   12 u32 step
//  16 u64 elements      24 u32 payload bytes      28 u32 CRC-32C of bytes 0..27 and the payload
//
// All fields are little-endian. Each message of a buffer begins at a multiple of 8.
#pragma once

#include <cstdint>

#include "paceline/core/base/bytes.h"
#include "paceline/core/base/result.h"

namespace paceline::compress {

struct MessageHeader {
  static constexpr std::size_t kBytes = 32;
  static constexpr std::uint16_t kOverflow = 1;  // flag: all ranks skip the step

  std::uint8_t codec = 0;
  Dtype dtype = Dtype::f32;  // the tensor's type
  std::uint16_t flags = 0;
  std::uint32_t tensor = 0;
  std::uint32_t step = 0;
  std::uint64_t elements = 0;
  std::uint32_t payload_bytes = 0;
  bool operator==(const MessageHeader&) const = default;
};

// The bytes of a message with its padding: the offset of the next message in a buffer.
constexpr std::size_t message_bytes(std::size_t payload_bytes) {
  return (MessageHeader::kBytes + payload_bytes + 7) / 8 * 8;
}

// Writes the header before a payload that is already in place, and zeros after it. REQUIRES:
// message.size() == message_bytes(header.payload_bytes).
void seal(const MessageHeader& header, MutableBytes message);

struct Message {
  MessageHeader header;
  Bytes payload;
  Bytes rest;  // the bytes after this message
};
// Opens the first message of the buffer. A failure says which field was wrong.
Result<Message> open(Bytes buffer);

}  // namespace paceline::compress
