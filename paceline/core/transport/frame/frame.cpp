#include "paceline/core/transport/frame/frame.h"

#include <fmt/format.h>

#include <algorithm>

#include "paceline/core/base/crc32c.h"
#include "paceline/core/transport/frame/frame_kinds.h"
#include "paceline/core/transport/frame/wire.h"

namespace paceline::transport {
namespace {

constexpr std::uint32_t kMagic = 0x31464c50;  // "PLF1"
constexpr std::size_t kLongestText = 16 << 10;
constexpr std::size_t kMostRanks = 4096;

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

Result<FrameHeader> decode(const RawFrameHeader& raw, const FrameKinds& kinds) {
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
  const FrameKind* const kind = kinds.find(h.type);
  if (kind == nullptr) return bad_frame(fmt::format("unknown type {}", static_cast<int>(h.type)));
  if (h.length > kind->longest_payload) {
    return bad_frame(fmt::format("{} bytes of payload in a {} frame, which carries at most {}",
                                 h.length, kind->name, kind->longest_payload));
  }
  return h;
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
