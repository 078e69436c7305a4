// The 64-byte header in front of everything that one process tells another (docs/wire.md).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/base/result.h"

namespace paceline::transport {

constexpr std::uint16_t kWireVersion = 6;
constexpr std::size_t kFrameHeaderBytes = 64;
// No frame carries more; longer messages are cut. Bounds what a receiver ever allocates for one
// frame.
constexpr std::size_t kLongestPayload = std::size_t{4} << 20;
constexpr std::size_t kLongestControlPayload = std::size_t{1} << 20;

// The kinds that transport itself reads or sends. Rooms that send others give them numbers of their
// own, and tell the links of them (frame_kinds.h).
enum class FrameType : std::uint8_t {
  data = 2,       // a payload that links may send as a reference
  reference = 3,  // the same, lying in the sender's shared memory: {segment, offset, length}
  taken = 4,      // the receiver no longer reads the reference
  withdraw = 9,   // a shared segment is gone
  failure = 10,   // the generation has failed, and why
  goodbye = 11,   // the rank leaves on purpose
  nudge = 17,     // look at the memory that we share
  passed = 20,    // beside a fabric: `sequence` frames went over it before what follows here
  heard = 21,     // the answer: they were heard
  attached = 26,  // the answer to an offer of a shared segment: whether its memory is here
  withheld = 27,  // a shared segment will not come: messages carry what lies there
};

class FrameKinds;  // frame_kinds.h

struct FrameHeader {
  FrameType type = FrameType::data;
  std::uint8_t flags = 0;
  std::uint64_t job = 0;  // fingerprint of the job's id
  std::uint64_t generation = 0;
  std::uint64_t sequence = 0;  // of the operation in its group; or the id of a point-to-point send
  std::uint32_t length = 0;    // bytes of payload
  std::uint32_t index = 0;     // which message of the operation; or the tag
  std::uint64_t descriptor = 0;  // fingerprint of the call
  std::uint32_t group = 0;
  std::uint32_t source = 0;       // the sender's rank
  std::uint32_t payload_crc = 0;  // CRC-32C, when flags has kHasPayloadCrc
  bool operator==(const FrameHeader&) const = default;
};

constexpr std::uint8_t kHasPayloadCrc = 1;

using RawFrameHeader = std::array<std::byte, kFrameHeaderBytes>;

RawFrameHeader encode(const FrameHeader& header);

// Checks in order: magic, version, header CRC, type and length for the type, which are those of
// `kinds`. The job and generation are the receiver's to compare.
Result<FrameHeader> decode(const RawFrameHeader& raw, const FrameKinds& kinds);

// {fault, ranks, text}: the payload of frames that tell of a failure.
std::vector<std::byte> encode(const Failure& failure);
std::optional<Failure> decode_failure(Bytes payload);  // nothing when malformed

}  // namespace paceline::transport
