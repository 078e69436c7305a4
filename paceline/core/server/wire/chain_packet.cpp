#include "paceline/core/server/wire/chain_packet.h"

#include <fmt/format.h>

namespace paceline::server {
namespace {

constexpr std::uint32_t kHasState = 1, kIsReady = 2;

Failure malformed(const ChainPacket& packet, std::string_view why) {
  return {Fault::io,
          fmt::format("a packet of kind {} between servers, for range {} of a table, {}: a bug, "
                      "please report it",
                      static_cast<std::uint32_t>(packet.kind), packet.range, why),
          {}};
}

}  // namespace

machine::Message encode(const ChainPacket& packet) {
  transport::WireWriter writer;
  std::size_t bytes = kChainHeader + packet.state.size();
  for (const RangeEntry& entry : packet.entries) bytes += bytes_of(entry);
  writer.reserve(bytes);
  writer.integer(packet.range)
      .integer((packet.has_state ? kHasState : 0U) | (packet.is_ready ? kIsReady : 0U))
      .integer(packet.generation)
      .integer(packet.index)
      .integer(packet.commit)
      .integer(packet.ready_at);
  for (const RangeEntry& entry : packet.entries) write_entry(entry, writer);
  writer.raw(packet.state);
  return {.kind = static_cast<std::uint32_t>(packet.kind), .payload = std::move(writer).take()};
}

Result<ChainPacket> parse_chain_packet(const machine::Message& message, std::uint32_t ranges) {
  transport::WireReader reader(message.payload);
  ChainPacket packet;
  packet.kind = static_cast<ChainKind>(message.kind);
  packet.range = reader.integer<std::uint32_t>();
  const auto flags = reader.integer<std::uint32_t>();
  packet.has_state = (flags & kHasState) != 0;
  packet.is_ready = (flags & kIsReady) != 0;
  packet.generation = reader.integer<std::uint64_t>();
  packet.index = reader.integer<std::uint64_t>();
  packet.commit = reader.integer<std::uint64_t>();
  packet.ready_at = reader.integer<std::uint64_t>();
  if (!is_chain_kind(message.kind)) return malformed(packet, "has no known kind");
  if (packet.range >= ranges) return malformed(packet, "names a range that is not there");
  if (!reader.ok()) return malformed(packet, "is shorter than its header");
  if (packet.kind == ChainKind::snapshot) packet.state = reader.raw(reader.rest().size());
  while (packet.kind == ChainKind::forward && !reader.rest().empty())
    if (!read_entry(reader, packet.entries.emplace_back()))
      return malformed(packet, "has an entry that is none");
  if (!reader.ok_and_empty()) return malformed(packet, "has not the length of its kind");
  return packet;
}

}  // namespace paceline::server
