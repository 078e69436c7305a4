#include "paceline/core/server/wire/packet.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace paceline::server {
namespace {

bool has_elements(PacketKind kind) {
  return kind == PacketKind::assign || kind == PacketKind::push || kind == PacketKind::row ||
         kind == PacketKind::quiet;
}

// The members, as many as the header says.
bool read_members(transport::WireReader& reader, Packet& packet) {
  if (packet.sequence > static_cast<std::uint64_t>(Lack::entries) ||
      reader.rest().size() / sizeof(std::int32_t) != packet.count)
    return false;
  for (std::uint64_t i = 0; i < packet.count; ++i)
    packet.members.push_back(reader.integer<std::int32_t>());
  return true;
}

bool has_facts(PacketKind kind) {
  return kind == PacketKind::row || kind == PacketKind::quiet;
}

Failure malformed(const Packet& packet, std::string_view why) {
  return {Fault::io,
          fmt::format("a packet of kind {} for range {} of a table on servers {}: a bug, please "
                      "report it",
                      static_cast<std::uint32_t>(packet.kind), packet.range, why),
          {}};
}

// The weight and settings of a push. Returns whether they are numbers that can be computed with.
bool read_numbers(transport::WireReader& reader, Packet& packet) {
  packet.weight = reader.real();
  packet.read = reader.integer<std::uint64_t>();
  for (std::uint32_t i = 0; i < packet.flags; ++i) packet.settings.push_back(reader.real());
  return packet.weight >= 0 && std::isfinite(packet.weight) &&
         std::ranges::all_of(packet.settings, [](double one) { return std::isfinite(one); });
}

bool read_facts(transport::WireReader& reader, RowFacts& facts) {
  facts.version = reader.integer<std::uint64_t>();
  facts.applied = reader.integer<std::uint64_t>();
  facts.staleness = reader.integer<std::uint64_t>();
  facts.weight = reader.real();
  return facts.weight >= 0;
}

std::size_t bytes_of(std::span<const Bytes> pieces) {
  std::size_t bytes = 0;
  for (const Bytes piece : pieces) bytes += piece.size();
  return bytes;
}

bool has_rounds(PacketKind kind) {
  return kind == PacketKind::pull || kind == PacketKind::row;
}

// The header says how many elements there are; behind those of a row there may be rounds.
bool read_elements(transport::WireReader& reader, std::size_t element_bytes, Packet& packet) {
  const std::size_t bytes = reader.rest().size(), elements = bytes / element_bytes;
  const bool may_have_more = has_rounds(packet.kind);
  if (may_have_more ? packet.count > elements
                    : packet.count != elements || bytes % element_bytes != 0)
    return false;
  packet.elements = reader.raw(static_cast<std::size_t>(packet.count) * element_bytes);
  return true;
}

bool read_rounds(transport::WireReader& reader, Packet& packet) {
  while (!reader.rest().empty())
    if (!read_round(reader, packet.rounds.emplace_back())) return false;
  return true;
}

}  // namespace

void write_round(transport::WireWriter& writer, const Round& round) {
  writer.integer(round.number).integer(static_cast<std::uint32_t>(round.workers.size()));
  for (const std::int32_t worker : round.workers) writer.integer(worker);
}

bool read_round(transport::WireReader& reader, Round& round) {
  round.number = reader.integer<std::uint64_t>();
  const auto workers = reader.integer<std::uint32_t>();
  if (!reader.ok() || reader.rest().size() / sizeof(std::int32_t) < workers) return false;
  for (std::uint32_t i = 0; i < workers; ++i)
    round.workers.push_back(reader.integer<std::int32_t>());
  return reader.ok();
}

machine::Message encode(const Packet& packet) {
  return encode(packet, {&packet.elements, 1});
}

machine::Message encode(const Packet& packet, std::span<const Bytes> pieces) {
  transport::WireWriter writer;
  writer.reserve(kPacketHeader + kFactsBytes + sizeof(double) * (2 + packet.settings.size()) +
                 bytes_of(pieces));
  writer.integer(packet.range)
      .integer(packet.flags)
      .integer(packet.sequence)
      .integer(packet.clock)
      .integer(packet.count);
  if (packet.kind == PacketKind::push) {
    writer.real(packet.weight).integer(packet.read);
    for (const double setting : packet.settings) writer.real(setting);
  }
  if (has_facts(packet.kind))
    writer.integer(packet.facts.version)
        .integer(packet.facts.applied)
        .integer(packet.facts.staleness)
        .real(packet.facts.weight);
  for (const std::int32_t member : packet.members) writer.integer(member);
  if (packet.kind == PacketKind::failed) {
    writer.text(std::string_view(packet.text).substr(0, kLongestText));
  } else {
    for (const Bytes piece : pieces) writer.raw(piece);
  }
  for (const Round& round : packet.rounds) write_round(writer, round);
  return {.kind = static_cast<std::uint32_t>(packet.kind), .payload = std::move(writer).take()};
}

Result<Packet> parse_packet(const machine::Message& message, const PacketLimits& limits) {
  transport::WireReader reader(message.payload);
  Packet packet;
  packet.kind = static_cast<PacketKind>(message.kind);
  packet.range = reader.integer<std::uint32_t>();
  packet.flags = reader.integer<std::uint32_t>();
  packet.sequence = reader.integer<std::uint64_t>();
  packet.clock = reader.integer<std::int64_t>();
  packet.count = reader.integer<std::uint64_t>();
  if (packet.kind < PacketKind::assign || packet.kind > PacketKind::done)
    return malformed(packet, "has no known kind");
  if (packet.range >= limits.ranges) return malformed(packet, "names a range that is not there");
  if (packet.kind == PacketKind::push) {
    if (packet.flags > kMostSettings) return malformed(packet, "has too many settings");
    if (!read_numbers(reader, packet))
      return malformed(packet, "has a weight or setting that is no number");
  }
  if (has_facts(packet.kind) && !read_facts(reader, packet.facts))
    return malformed(packet, "has a weight that is no number");
  if (packet.kind == PacketKind::failed) {
    packet.text = reader.text(kLongestText);
  } else if (packet.kind == PacketKind::missing) {
    if (!read_members(reader, packet)) return malformed(packet, "has not the members that it says");
  } else if (has_elements(packet.kind)) {
    if (!read_elements(reader, limits.element_bytes, packet))
      return malformed(packet, "has not the number of elements that it says");
  }
  if (has_rounds(packet.kind) && !read_rounds(reader, packet))
    return malformed(packet,
                     "has not the number of elements that it says, or rounds of another form");
  if (!reader.ok_and_empty()) return malformed(packet, "has not the length of its kind");
  return packet;
}

}  // namespace paceline::server
