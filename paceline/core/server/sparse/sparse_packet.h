// SparsePacket: what workers and servers of a sparse table say to each other, and its form in
// bytes.
//
// A packet is a header of 40 bytes {share 4, flags 4, number 8, sequence 8, clock 8, count 8} and
// what its kind brings. Pushes and pulls name a list of ids: its hash (8 bytes), and with the flag
// kHasIds the ids (8 bytes each, ascending, `count` of them). Pushes bring before it their weight
// and rate (8 bytes each), and behind it `count` rows; rows bring `count` rows. Rows that are
// fetched or stored have their ids before them (8 bytes each), and the rule's state behind each.
// `rested` brings the two last of its fields (8 bytes each). Those for whom a share waits are
// numbers (4 bytes each); failures are a text. All is little-endian. The kind is that of the
// machine's message. parse() trusts nothing: it never reads or allocates beyond the message that
// came.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/machine/machine.h"
#include "paceline/core/server/sparse/sparse_rows.h"

namespace paceline::server {

enum class SparseKind : std::uint32_t {
  // A worker says these to a share; in brackets, its meaning of the header's fields.
  begin = 32,  // does the share mean the same table? [sequence: fingerprint]
  push,        // [number: 1, 2, ... of this worker; clock: stamp]
  pull,        // [number: of the pull; sequence: own pushes that it needs; clock: least clock]
  rest,        // pushes no more until all workers do [number: of the rest; sequence: own pushes]
  leave,       // [sequence: all own pushes]
  ask,    // whom do you wait for? [number: of the question; sequence: own pushes that its pulls
          // need; clock: the least clock of these, or kAnyClock; count: own pushes that were
          // answered]
  fetch,  // stored rows of an arc [number: of the exchange; sequence: the first of them, as the arc
          // counts them; clock: the arc's place in the share; count: rows at most]
  store,  // rows with their state [number: of the exchange; clock: steps of the rule; count: rows]
  // A share says these to a worker.
  begun,    // [clock: the share's]
  taken,    // [number: own pushes up to this one are decided; clock: the share's]
  rows,     // [number: of the pull; clock: of the rows]
  unknown,  // send it again with its ids [flags: 0 a pull, 1 a push; number: of it]
  rested,   // all have [number: of the rest; sequence: rows that are stored; clock: at which all
            // workers go on; count: steps of the rule; counted and evicted: see ShareValue]
  left,
  missing,  // whom the share waits for [number: of the question; clock: where it lacks a push,
            // kLacksRests, or kLacksChanges; count: members]
  fetched,  // [number: of the exchange; sequence: rows that the arc has; clock: steps of the rule;
            // count: rows]
  stored,   // [number: of the exchange]
  failed,   // what the table has ended with, as text [flags: kIsLost, or 0]
  moved,    // this server does not take that now
  // A worker says this to servers: it has heard of all shares that it has left them [share: 0].
  done,
};

// In place of the clock of a push that is lacking: workers that come to rest, and servers of the
// chain that keep the newest changes.
inline constexpr std::int64_t kLacksRests = -1, kLacksChanges = -2;

struct SparsePacket {
  static constexpr std::uint32_t kHasIds = 1;  // a flag
  static constexpr std::uint32_t kIsLost = 1;  // servers have ended, and with them rows

  SparseKind kind = SparseKind::failed;
  std::uint32_t share = 0;
  std::uint32_t flags = 0;
  std::uint64_t number = 0;
  std::uint64_t sequence = 0;
  std::int64_t clock = 0;
  std::uint64_t count = 0;  // where the packet names a list: ids in it
  double weight = 1;        // of a push
  double rate = 0;
  std::uint64_t list = 0;  // the list's hash
  SharedIds ids = {};      // with kHasIds; of rows that are fetched or stored, in any order
  Bytes rows = {};         // they lie elsewhere; of a packet that was read, in its message
  std::uint64_t counted = 0, evicted = 0;  // of `rested`
  std::vector<std::int32_t> members = {};
  std::string text = {};

  ListKey key() const { return {list, count}; }
};

inline constexpr std::size_t kSparseHeader = 40;

machine::Message encode(const SparsePacket& packet);
// The same, with `row_bytes` more for rows, which the caller writes: they are its last bytes.
machine::Message encode_without_rows(const SparsePacket& packet, std::size_t row_bytes);

// A failure (io) says what is wrong with the bytes.
Result<SparsePacket> parse_sparse_packet(const machine::Message& message, const SparseShape& shape);

}  // namespace paceline::server
