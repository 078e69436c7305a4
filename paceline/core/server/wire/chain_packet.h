// ChainPacket: what the servers of a range's chain say to each other, and its form in bytes.
//
// A packet is a header of 40 bytes {range 4, flags 4, generation of the chain 8, index 8, commit 8,
// ready at 8} and what its kind brings: entries (range_entry.h), or the whole state of a range. All
// is little-endian. parse_chain_packet() trusts nothing: it never reads or allocates beyond the
// message that came.
#pragma once

#include <cstdint>
#include <limits>
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

struct ChainPacket {
  ChainKind kind = ChainKind::forward;
  std::uint32_t range = 0;
  std::uint64_t generation = 0;
  std::uint64_t index = 0;
  std::uint64_t commit = 0;              // of acknowledge: the last entry that the last server has
  std::uint64_t ready_at = kNeverReady;  // forward: a server that has this entry is ready
  bool has_state = false, is_ready = false;  // of acknowledge
  std::vector<RangeEntry> entries = {};      // of forward
  Bytes state = {};  // of a snapshot; it lies elsewhere; of a packet that was read, in its message
  bool operator==(const ChainPacket&) const = default;
};

inline constexpr std::size_t kChainHeader = 40;

constexpr bool is_chain_kind(std::uint32_t kind) {
  return kind >= static_cast<std::uint32_t>(ChainKind::forward) &&
         kind <= static_cast<std::uint32_t>(ChainKind::snapshot);
}

machine::Message encode(const ChainPacket& packet);
// A failure (io) says what is wrong with the bytes.
Result<ChainPacket> parse_chain_packet(const machine::Message& message, std::uint32_t ranges);

}  // namespace paceline::server
