// Packet: what workers and servers of a table say to each other, and its form in bytes.
//
// A packet is a header of 32 bytes {range 4, flags 4, sequence 8, clock 8, count 8} and what its
// kind brings: pushes a weight and the rule's settings (8 bytes each) and elements; rows and first
// values elements; failures a text. All is little-endian. The kind is that of the machine's
// message. parse() trusts nothing: it never reads or allocates beyond the message that came.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/machine/machine.h"

namespace paceline::server {

enum class PacketKind : std::uint32_t {
  // A worker says these to a range; in brackets, its meaning of the header's fields.
  assign = 1,  // first values, or none: tell me when they are there [sequence: fingerprint]
  push,        // an update [sequence: 1, 2, ... of this worker; clock: stamp; flags: settings]
  pull,        // asks for a row [flags: number of the pull; sequence: own pushes that it needs;
               // clock: least clock]
  join,        // a newcomer [clock: where it goes on; kAnyClock: where am I?]
  leave,
  // A range says these to a worker.
  assigned,
  answer,  // to pushes and joins [sequence: all own pushes up to this one are decided; clock: the
  // range's; count: the clock that the range has of this worker; flags: own pushes dropped]
  row,  // [flags: number of the pull; sequence: own pushes in it; clock: the row's]
  left,
  failed,  // what the table has ended with, as text
};

struct Packet {
  PacketKind kind = PacketKind::failed;
  std::uint32_t range = 0;
  std::uint32_t flags = 0;
  std::uint64_t sequence = 0;
  std::int64_t clock = 0;
  std::uint64_t count = 0;            // where the packet has elements: their number
  double weight = 1;                  // of a push
  std::vector<double> settings = {};  // of a push
  std::vector<std::byte> elements = {};
  std::string text = {};  // of a failure
};

inline constexpr std::size_t kPacketHeader = 32;
inline constexpr std::size_t kMostSettings = 16;
inline constexpr std::size_t kLongestText = 4096;

machine::Message encode(const Packet& packet);

// The table of a packet sets these limits.
struct PacketLimits {
  std::uint32_t ranges = 1;
  std::size_t element_bytes = 4;
};
// A failure (io) says what is wrong with the bytes.
Result<Packet> parse_packet(const machine::Message& message, const PacketLimits& limits);

}  // namespace paceline::server
