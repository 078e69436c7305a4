// The identity by which a frame belongs to a link: frames of another job, generation or sender are
// refused.
#pragma once

#include <cstdint>

#include "paceline/core/base/bytes.h"
#include "paceline/core/base/result.h"
#include "paceline/core/transport/frame/frame.h"

namespace paceline::transport {

struct StreamIdentity {
  std::uint64_t job = 0;
  std::uint64_t generation = 0;
  std::uint32_t own_rank = 0;
  std::uint32_t peer_rank = 0;
};

// The header as it is sent: job, generation, source, length and checksum are filled in.
FrameHeader stamped(FrameHeader header, Bytes payload, const StreamIdentity& identity,
                    bool payload_checksum);

// Checks, in this order, the sender, whether the payload fits its place (if it has one), and the
// payload's checksum (if it has one).
Result<> check_origin(const FrameHeader& header, const StreamIdentity& identity);
Result<> check_target(const FrameHeader& header, MutableBytes target,
                      const StreamIdentity& identity);
Result<> check_payload(const FrameHeader& header, Bytes payload);

}  // namespace paceline::transport
