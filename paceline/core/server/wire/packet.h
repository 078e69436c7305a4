// Packet: what workers and servers of a table say to each other, and its form in bytes.
//
// A packet is a header of 32 bytes {range 4, flags 4, sequence 8, clock 8, count 8} and what its
// kind brings: pushes a weight, the version of the row that the worker had read, and the rule's
// settings (8 bytes each) and elements; rows, also the
// last ones, 32 bytes of facts {version 8, applied 8, staleness 8, weight 8} and elements; first
// values elements; whom a range waits for, the numbers of these members (4 bytes each); failures a
// text. Where the rule's state travels, its slots follow the elements. Where the table's values
// follow in rounds, pulls and rows end with rounds {number 8, workers 4, 4 for each of them}.
// All is little-endian. The kind is that of the machine's message. parse() trusts nothing: it never
// reads or allocates beyond the message that came.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/machine/machine.h"
#include "paceline/core/transport/frame/wire.h"

namespace paceline::server {

enum class PacketKind : std::uint32_t {
  // A worker says these to a range; in brackets, its meaning of the header's fields.
  assign = 1,  // first values, or none: tell me when they are there [sequence: fingerprint; clock:
               // steps of the rule in the state that comes with them]
  push,        // an update [sequence: 1, 2, ... of this worker; clock: stamp; flags: settings]
  pull,        // asks for a row [flags: number of the pull; sequence: own pushes that it needs;
               // clock: least clock]
  join,        // a newcomer [clock: where it goes on; kAnyClock: where am I?]
  leave,       // [sequence: all own pushes]
  quiesce,     // pushes no more until all workers do [flags: number, counted with the pulls;
               // sequence: all own pushes]
  awake,  // has the values of the moment at which all were quiet [flags: number of the quiesce]
  ask,    // whom do you wait for? [flags: number of the question; where the worker waits for a
          // row, sequence: own pushes that it needs; clock: least clock, else kAnyClock;
          // count: what it was told, 1 that values are there and 1 for each of its pushes]
  // A range says these to a worker.
  assigned,
  answer,  // to pushes and joins [sequence: all own pushes up to this one are decided; clock: the
  // range's; count: the clock that the range has of this worker; flags: own pushes dropped]
  row,    // [flags: number of the pull; sequence: own pushes in it; clock: the row's]
  quiet,  // all are: the row that all have, and the rule's state [flags: number of the quiesce;
          // sequence: steps of the rule; clock: that at which all workers go on]
  left,
  missing,  // whom the range waits for before it gives the asker what it owes [flags: number of the
            // question; sequence: a Lack; clock: where it lacks a push; count: members]
  failed,   // what the table has ended with, as text [flags: kIsLost, or 0]
  moved,  // this server does not take such packets for the range: ask the one that the chain names
  // A worker says this to servers: it has heard of all ranges that it has left them [range: 0].
  done,
};

// A range lacks one of these of the members that it waits for.
// `entries`: that the servers of its chain keep what the first one has entered.
enum class Lack : std::uint8_t { nothing, first_values, push, quiesce, entries };

// A row tells this beside its values. An update is one push of a worker that the values hold.
struct RowFacts {
  std::uint64_t version = 0;    // steps by which the values were made
  std::uint64_t applied = 0;    // updates of the reader in them
  std::uint64_t staleness = 0;  // of all these together: versions that the reader had not read
  double weight = 0;            // of all workers: of the last step, or of the updates that are seen
  bool operator==(const RowFacts&) const = default;
};

// A round of a table that has some: those whose contributions are new in it.
struct Round {
  std::uint64_t number = 0;  // 1, 2, ... since all were quiet
  std::vector<std::int32_t> workers = {};
  bool operator==(const Round&) const = default;
};

struct Packet {
  static constexpr std::uint32_t kIsLost = 1;  // servers have ended, and with them values

  PacketKind kind = PacketKind::failed;
  std::uint32_t range = 0;
  std::uint32_t flags = 0;
  std::uint64_t sequence = 0;
  std::int64_t clock = 0;
  std::uint64_t count = 0;            // where the packet has elements: their number
  double weight = 1;                  // of a push
  std::uint64_t read = 0;             // of a push
  RowFacts facts = {};                // of a row, also of the last
  std::vector<double> settings = {};  // of a push
  Bytes elements = {};  // they lie elsewhere; of a packet that was read, in its message
  std::vector<std::int32_t> members = {};  // that a range waits for
  std::vector<Round> rounds = {};          // of a row of the first range; of a pull, for others
  std::string text = {};                   // of a failure
};

inline constexpr std::size_t kPacketHeader = 32, kFactsBytes = 32;
inline constexpr std::size_t kMostSettings = 16;
inline constexpr std::size_t kLongestText = 4096;

machine::Message encode(const Packet& packet);
// The same with these elements, one piece after the other.
machine::Message encode(const Packet& packet, std::span<const Bytes> pieces);

// The table of a packet sets these limits.
struct PacketLimits {
  std::uint32_t ranges = 1;
  std::size_t element_bytes = 4;
};
// A failure (io) says what is wrong with the bytes.
Result<Packet> parse_packet(const machine::Message& message, const PacketLimits& limits);

void write_round(transport::WireWriter& writer, const Round& round);
// False: the bytes are no round.
bool read_round(transport::WireReader& reader, Round& round);

}  // namespace paceline::server
