// The 64-byte header in front of everything that one process tells another (docs/wire.md).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/base/result.h"

namespace paceline::transport {

constexpr std::uint16_t kWireVersion = 4;
constexpr std::size_t kFrameHeaderBytes = 64;
// No frame carries more; longer messages are cut. Bounds what a receiver ever allocates for one
// frame.
constexpr std::size_t kLongestPayload = std::size_t{4} << 20;
constexpr std::size_t kLongestControlPayload = std::size_t{1} << 20;

enum class FrameType : std::uint8_t {
  call = 1,   // a rank has called a collective: its descriptor, weight and note
  data,       // payload of a program's step
  reference,  // the same, lying in the sender's shared memory: {segment, offset, length}
  taken,      // the receiver no longer reads the reference
  stored,     // the data was written into the receiver's shared memory, but for its edges, which
              // are the payload
  announce,   // point-to-point: a send, with its payload when it is short
  matched,    // point-to-point: the send has met its recv
  message,    // point-to-point: a piece of a long send
  withdraw,   // a shared segment is gone
  failure,    // the generation has failed, and why
  goodbye,    // the rank leaves on purpose
  store_set,  // store: {key, value}
  store_get,  // store: {key}; answered by store_value when the key is there
  store_value,
  verdict,     // launcher to worker: the run has failed, and why
  report,      // worker to launcher: why this rank gives up
  nudge,       // look at the memory that we share
  posted,      // a short collective, called and carried out in one: the input
  invitation,  // what a group's engine needs from the library of its first rank
  passed,      // beside a fabric: `sequence` frames went over it before what follows here
  heard,       // the answer: they were heard
  machine,     // a message of a protocol that runs as a machine (core/machine): `sequence` is its
               // kind, `index` its index
  assent,      // several ranks have called the same collective
  saved,       // worker to launcher: a checkpoint is committed: {step}
  wanted,      // point-to-point: a recv waits for a send that its rank has not heard of
  attached,    // the answer to an offer of a shared segment: whether its memory is here
  withheld,    // a shared segment will not come: messages carry what lies there
};

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

// Checks in order: magic, version, header CRC, type, length for the type. The job and generation
// are the receiver's to compare.
Result<FrameHeader> decode(const RawFrameHeader& raw);

std::string_view name_of(FrameType type);

// {fault, ranks, text}: the payload of failure, verdict and report frames.
std::vector<std::byte> encode(const Failure& failure);
std::optional<Failure> decode_failure(Bytes payload);  // nothing when malformed

}  // namespace paceline::transport
