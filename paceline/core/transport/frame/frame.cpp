#include "paceline/core/transport/frame/frame.h"

#include <fmt/format.h>

#include <algorithm>

#include "paceline/core/base/crc32c.h"
#include "paceline/core/transport/frame/wire.h"

namespace paceline::transport {
namespace {

constexpr std::uint32_t kMagic = 0x31464c50;  // "PLF1"
constexpr std::size_t kLongestText = 16 << 10;
constexpr std::size_t kMostRanks = 4096;

std::size_t longest_payload(FrameType type) {
  switch (type) {
    case FrameType::data:
    case FrameType::message:
    case FrameType::machine: return kLongestPayload;
    case FrameType::taken:
    case FrameType::matched:
    case FrameType::wanted:
    case FrameType::goodbye:
    case FrameType::nudge:
    case FrameType::passed:
    case FrameType::heard: return 0;
    default: return kLongestControlPayload;
  }
}

Failure bad_frame(std::string what) {
  return {Fault::io, "malformed frame: " + std::move(what), {}};
}

}  // namespace

RawFrameHeader encode(const FrameHeader& h) {
  WireWriter w;
  w.integer(kMagic).integer(kWireVersion).integer(h.type).integer(h.flags);
  w.integer(h.job).integer(h.generation).integer(h.sequence);
  w.integer(h.length).integer(h.index).integer(h.descriptor);
  w.integer(h.group).integer(h.source).integer(h.payload_crc);
  w.integer(crc32c(w.bytes()));
  RawFrameHeader raw;
  std::ranges::copy(w.bytes(), raw.begin());
  return raw;
}

Result<FrameHeader> decode(const RawFrameHeader& raw) {
  WireReader r(raw);
  FrameHeader h;
  if (r.integer<std::uint32_t>() != kMagic)
    return bad_frame("it does not begin with Paceline's magic number");
  if (const auto version = r.integer<std::uint16_t>(); version != kWireVersion) {
    return bad_frame(
        fmt::format("wire version {}, this build speaks {}; run the same build on all ranks",
                    version, kWireVersion));
  }
  h.type = r.integer<FrameType>();
  h.flags = r.integer<std::uint8_t>();
  h.job = r.integer<std::uint64_t>();
  h.generation = r.integer<std::uint64_t>();
  h.sequence = r.integer<std::uint64_t>();
  h.length = r.integer<std::uint32_t>();
  h.index = r.integer<std::uint32_t>();
  h.descriptor = r.integer<std::uint64_t>();
  h.group = r.integer<std::uint32_t>();
  h.source = r.integer<std::uint32_t>();
  h.payload_crc = r.integer<std::uint32_t>();
  if (r.integer<std::uint32_t>() != crc32c(Bytes(raw).first(kFrameHeaderBytes - 4)))
    return bad_frame("header checksum");
  if (name_of(h.type) == "unknown")
    return bad_frame(fmt::format("unknown type {}", static_cast<int>(h.type)));
  if (h.length > longest_payload(h.type)) {
    return bad_frame(fmt::format("{} bytes of payload in a {} frame, which carries at most {}",
                                 h.length, name_of(h.type), longest_payload(h.type)));
  }
  return h;
}

std::string_view name_of(FrameType type) {
  switch (type) {
    case FrameType::call: return "call";
    case FrameType::data: return "data";
    case FrameType::reference: return "reference";
    case FrameType::taken: return "taken";
    case FrameType::stored: return "stored";
    case FrameType::announce: return "announce";
    case FrameType::matched: return "matched";
    case FrameType::message: return "message";
    case FrameType::withdraw: return "withdraw";
    case FrameType::failure: return "failure";
    case FrameType::goodbye: return "goodbye";
    case FrameType::store_set: return "store_set";
    case FrameType::store_get: return "store_get";
    case FrameType::store_value: return "store_value";
    case FrameType::verdict: return "verdict";
    case FrameType::report: return "report";
    case FrameType::nudge: return "nudge";
    case FrameType::posted: return "posted";
    case FrameType::invitation: return "invitation";
    case FrameType::passed: return "passed";
    case FrameType::heard: return "heard";
    case FrameType::machine: return "machine";
    case FrameType::assent: return "assent";
    case FrameType::saved: return "saved";
    case FrameType::wanted: return "wanted";
    case FrameType::attached: return "attached";
    case FrameType::withheld: return "withheld";
  }
  return "unknown";
}

std::vector<std::byte> encode(const Failure& failure) {
  WireWriter w;
  w.integer(failure.fault)
      .integer(static_cast<std::uint32_t>(std::min(failure.ranks.size(), kMostRanks)));
  for (std::size_t i = 0; i < std::min(failure.ranks.size(), kMostRanks); ++i) {
    w.integer(static_cast<std::int32_t>(failure.ranks[i]));
  }
  w.text(std::string_view(failure.what).substr(0, kLongestText));
  return std::move(w).take();
}

std::optional<Failure> decode_failure(Bytes payload) {
  WireReader r(payload);
  Failure failure;
  failure.fault = r.integer<Fault>();
  const auto ranks = r.integer<std::uint32_t>();
  if (ranks > kMostRanks) return std::nullopt;
  for (std::uint32_t i = 0; i < ranks && r.ok(); ++i)
    failure.ranks.push_back(r.integer<std::int32_t>());
  failure.what = r.text(kLongestText);
  if (!r.ok_and_empty() || name_of(failure.fault) == "unknown fault") return std::nullopt;
  return failure;
}

}  // namespace paceline::transport
