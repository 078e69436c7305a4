// VectorPacket: what the coordinator, the workers and the servers of a full-batch L-BFGS say to
// each other, and its form in bytes.
//
// A packet is a header of 16 bytes {number u64, evaluation u64} and what its kind brings: commands
// of 12 bytes each {op u8, target u8, source u8, zero u8, factor f64}; values of 8 bytes each;
// elements of a shard; a loss f64 and a text. All is little-endian. The kind is that of the
// machine's message. parse() trusts nothing: it never reads or allocates beyond the message that
// came.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/machine/machine.h"

namespace paceline::server {

// A server does these to its shards of vectors.
enum class VectorOp : std::uint8_t {
  copy = 1,  // target = source
  axpy,      // target += factor * source
  scale,     // target *= factor
  dot,       // tells the product of target and source
  sum_abs,   // tells the sum of the target's absolute values
  greatest,  // tells the greatest of them
};
inline bool tells_value(VectorOp op) {
  return op >= VectorOp::dot;
}

struct VectorCommand {
  VectorOp op = VectorOp::copy;
  std::uint8_t target = 0, source = 0;
  double factor = 0;
  bool operator==(const VectorCommand&) const = default;
};

enum class VectorKind : std::uint32_t {
  // The coordinator says these; in brackets, the meaning of the header's fields.
  carry_out = 1,  // to a server: these commands, in order [number: 1, 2, ... of the list;
                  // evaluation: one that begins behind them with a gradient of zeros; 0: none]
  portion,        // to a worker: compute it [number: of the portion; evaluation]
  over,           // to a worker: the iteration is [number: of the iteration; evaluation: the one
                  // with the parameters where it ended], with the loss there; a text: it failed
  // A worker says these.
  want,   // to the coordinator: it is free [number: of the iteration]
  done,   // to the coordinator: all servers have the gradient [number: of the portion;
          // evaluation], with the loss
  ended,  // to the coordinator: it has the parameters where that ended [number: of the iteration]
  store,  // to a server: first parameters, as elements
  fetch,  // to a server: give the parameters [evaluation: that is computed with them]
  gradient,  // to a server: the sum over a portion's samples [number: of the portion; evaluation]
  // A server says these.
  carried_out,  // to the coordinator: the values that the commands tell [number: of the list]
  stored,
  values,  // parameters as elements [evaluation]; none: they are there no more
  taken,   // a gradient is summed, or was, or its evaluation is over [number, evaluation]
};

struct VectorPacket {
  VectorKind kind = VectorKind::want;
  std::uint64_t number = 0;
  std::uint64_t evaluation = 0;
  std::vector<VectorCommand> commands = {};  // of carry_out
  std::vector<double> values = {};           // of carried_out
  Bytes elements = {};    // of store, gradient and values; they lie in the message that was read
  double loss = 0;        // of done and over
  std::string text = {};  // of over
};

inline constexpr std::size_t kVectorHeader = 16, kVectorCommandBytes = 12;
inline constexpr std::size_t kMostCommands = 64, kLongestVectorText = 4096;

machine::Message encode(const VectorPacket& packet);

struct VectorLimits {
  std::size_t vectors = 0;
  std::size_t shard_bytes = 0;  // of the server that says it or is told it
};
// A failure (io) says what is wrong with the bytes.
Result<VectorPacket> parse_vector_packet(const machine::Message& message,
                                         const VectorLimits& limits);

}  // namespace paceline::server
