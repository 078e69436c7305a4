#include "paceline/core/transport/frame/stream_identity.h"

#include <fmt/format.h>

#include "paceline/core/base/crc32c.h"

namespace paceline::transport {

FrameHeader stamped(FrameHeader header, Bytes payload, const StreamIdentity& identity,
                    bool payload_checksum) {
  header.job = identity.job;
  header.generation = identity.generation;
  header.source = identity.own_rank;
  header.length = static_cast<std::uint32_t>(payload.size());
  if (payload_checksum && !payload.empty()) {
    header.flags |= kHasPayloadCrc;
    header.payload_crc = crc32c(payload);
  }
  return header;
}

Result<> check_origin(const FrameHeader& header, const StreamIdentity& identity) {
  if (header.job == identity.job && header.generation == identity.generation &&
      header.source == identity.peer_rank)
    return Done{};
  return Failure{Fault::io,
                 fmt::format("a frame of job {:x}, generation {}, rank {} on the link to rank {} "
                             "of job {:x}, generation {}",
                             header.job, header.generation, header.source, identity.peer_rank,
                             identity.job, identity.generation),
                 {}};
}

Result<> check_target(const FrameHeader& header, MutableBytes target,
                      const StreamIdentity& identity) {
  if (target.empty() || target.size() == header.length) return Done{};
  return Failure{Fault::io,
                 fmt::format("{} bytes came where {} were expected", header.length, target.size()),
                 {static_cast<int>(identity.peer_rank)}};
}

Result<> check_payload(const FrameHeader& header, Bytes payload) {
  if ((header.flags & kHasPayloadCrc) == 0 || crc32c(payload) == header.payload_crc) return Done{};
  return Failure{
      Fault::io, fmt::format("payload checksum of a {} frame", name_of(header.type)), {}};
}

}  // namespace paceline::transport
