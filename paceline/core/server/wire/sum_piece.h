// SumPiece: a part of an array that all workers push to be summed on a server, or the sum of it.
//
// It is a header of 40 bytes {channel u32, dtype u8, op u8, 2 bytes of zeros, call u64, begin u64,
// count u64, elements of the whole call u64} and `count` elements. All is little-endian.
#pragma once

#include <cstdint>
#include <string>

#include "paceline/core/base/bytes.h"
#include "paceline/core/base/reduce.h"
#include "paceline/core/machine/machine.h"

namespace paceline::server {

enum class SumKind : std::uint32_t {
  push = 1,  // a worker's part, to a server
  sum,       // of all workers' parts, to each worker
  refused,   // a text, to each worker: why there will be no sums
};

struct SumPiece {
  std::uint32_t channel = 0;  // each worker counts alike
  std::uint64_t call = 0;     // of that channel
  std::uint64_t begin = 0, count = 0, all = 0;
  Dtype dtype = Dtype::f32;
  ReduceOp op = ReduceOp::sum;
  bool operator==(const SumPiece&) const = default;
};

machine::Message encode(SumKind kind, const SumPiece& piece, Bytes elements);
// The elements of a piece that was read lie in its message, which must outlive this.
struct ReadPiece {
  SumPiece piece;
  Bytes elements;
};
// A failure (io) says what is wrong with the bytes.
Result<ReadPiece> parse_sum_piece(const machine::Message& message);

// Servers sum what they need not round in between: f32, f64 and integers.
bool can_sum(ReduceOp op, Dtype dtype);

// "100 f32 for average"
std::string describe(const SumPiece& piece);

}  // namespace paceline::server
