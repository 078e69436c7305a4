// ChainPacket: what the servers of a range's chain say to each other, and its form in bytes.
//
// A packet is a header of 40 bytes {range 4, flags 4, generation of the chain 8, index 8, commit 8,
// ready at 8} and what its kind brings: entries (range_entry.h), or the whole state of a range. All
// is little-endian. parse_chain_packet() trusts nothing: it never reads or allocates beyond the
// message that came. Shares of sparse tables have chains too, with entries of their own and a
// share's number in place of the range's.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "paceline/core/machine/machine.h"
#include "paceline/core/server/wire/range_entry.h"

namespace paceline::server {

enum class ChainKind : std::uint32_t {
  forward = 64,  // entries, to the next server of the chain [index: that of the entry before them]
  acknowledge,   // to the server before [flags; index: of the last entry that this one has]
  snapshot,      // the state, to a server that lacks entries which are gone
};

inline constexpr std::uint64_t kNeverReady = std::numeric_limits<std::uint64_t>::max();

// Entries have bytes_of(), write_entry() and read_entry(), as those of range_entry.h.
template <typename Entry>
struct ChainPacketOf {
  ChainKind kind = ChainKind::forward;
  std::uint32_t range = 0;
  std::uint64_t generation = 0;
  std::uint64_t index = 0;
  std::uint64_t commit = 0;              // of acknowledge: the last entry that the last server has
  std::uint64_t ready_at = kNeverReady;  // forward: a server that has this entry is ready
  bool has_state = false, is_ready = false;  // of acknowledge
  std::vector<Entry> entries = {};           // of forward
  Bytes state = {};  // of a snapshot; it lies elsewhere; of a packet that was read, in its message
  bool operator==(const ChainPacketOf&) const = default;
};
using ChainPacket = ChainPacketOf<RangeEntry>;

inline constexpr std::size_t kChainHeader = 40;

constexpr bool is_chain_kind(std::uint32_t kind) {
  return kind >= static_cast<std::uint32_t>(ChainKind::forward) &&
         kind <= static_cast<std::uint32_t>(ChainKind::snapshot);
}

inline constexpr std::uint32_t kHasState = 1, kIsReady = 2;  // flags
Failure malformed_chain_packet(std::uint32_t kind, std::uint32_t range, std::string_view why);

template <typename Entry = RangeEntry>
machine::Message encode(const ChainPacketOf<Entry>& packet) {
  transport::WireWriter writer;
  std::size_t bytes = kChainHeader + packet.state.size();
  for (const Entry& entry : packet.entries) bytes += bytes_of(entry);
  writer.reserve(bytes);
  writer.integer(packet.range)
      .integer((packet.has_state ? kHasState : 0U) | (packet.is_ready ? kIsReady : 0U))
      .integer(packet.generation)
      .integer(packet.index)
      .integer(packet.commit)
      .integer(packet.ready_at);
  for (const Entry& entry : packet.entries) write_entry(entry, writer);
  writer.raw(packet.state);
  return {.kind = static_cast<std::uint32_t>(packet.kind), .payload = std::move(writer).take()};
}

// A failure (io) says what is wrong with the bytes.
template <typename Entry = RangeEntry>
Result<ChainPacketOf<Entry>> parse_chain_packet(const machine::Message& message,
                                                std::uint32_t ranges) {
  transport::WireReader reader(message.payload);
  ChainPacketOf<Entry> packet;
  const auto malformed = [&](std::string_view why) {
    return malformed_chain_packet(message.kind, packet.range, why);
  };
  packet.kind = static_cast<ChainKind>(message.kind);
  packet.range = reader.integer<std::uint32_t>();
  const auto flags = reader.integer<std::uint32_t>();
  packet.has_state = (flags & kHasState) != 0;
  packet.is_ready = (flags & kIsReady) != 0;
  packet.generation = reader.integer<std::uint64_t>();
  packet.index = reader.integer<std::uint64_t>();
  packet.commit = reader.integer<std::uint64_t>();
  packet.ready_at = reader.integer<std::uint64_t>();
  if (!is_chain_kind(message.kind)) return malformed("has no known kind");
  if (packet.range >= ranges) return malformed("names a range that is not there");
  if (!reader.ok()) return malformed("is shorter than its header");
  if (packet.kind == ChainKind::snapshot) packet.state = reader.raw(reader.rest().size());
  while (packet.kind == ChainKind::forward && !reader.rest().empty())
    if (!read_entry(reader, packet.entries.emplace_back()))
      return malformed("has an entry that is none");
  if (!reader.ok_and_empty()) return malformed("has not the length of its kind");
  return packet;
}

}  // namespace paceline::server
