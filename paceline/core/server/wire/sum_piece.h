// SumPiece: a part of an array that all workers push to be summed on a server, or the sum of it.
//
// The channel is the index of its message. It is a header of 32 bytes {dtype u8, op u8, 2 bytes of
// zeros, count u32, call u64, begin u64, elements of the whole call u64}. Behind it follow `count`
// elements; or a SharedPart; or those bytes of the sum that the server has not stored in lent
// memory. All is little-endian. Questions and answers about a call have a form of their own
// (MissingParts).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/base/reduce.h"
#include "paceline/core/machine/machine.h"
#include "paceline/core/transport/memory/segment_table.h"

namespace paceline::server {

enum class SumKind : std::uint32_t {
  push = 1,  // a worker's part, to a server
  sum,       // of all workers' parts, to each worker
  refused,   // a text, to each worker: why there will be no sums
  shared,    // a worker's part, where it lies in the worker's shared memory
  stored,    // the sum lies where the worker has asked for it, but for the bytes that follow
  ask,       // a worker to a server that owes it sums of a call: for whom do you wait?
  missing,   // the answer: the workers whose parts of the call are not all there
};

inline constexpr std::size_t kPieceHeader = 32;

struct SumPiece {
  std::uint32_t channel = 0;                    // each worker counts alike
  std::uint64_t call = 0;                       // of that channel
  std::uint64_t begin = 0, count = 0, all = 0;  // elements; count < 2^32
  Dtype dtype = Dtype::f32;
  ReduceOp op = ReduceOp::sum;
  std::size_t bytes() const { return count * size_of(dtype); }
  bool operator==(const SumPiece&) const = default;
};

// The place of a part in its worker's shared memory, and where its sum belongs. The server stores
// the bytes `stored` of the sum there, and tells the worker the others.
struct SharedPart {
  transport::Remote input, output;
  transport::Extent stored;  // counted from the begin of the part
  bool operator==(const SharedPart&) const = default;
};

machine::Message encode(SumKind kind, const SumPiece& piece, Bytes rest);
machine::Message encode(const SumPiece& piece, const SharedPart& lent);

// The rest, behind the header, lies in the message, which must outlive this. It is as long as the
// kind says; for `stored` it is at most the whole part.
struct ReadPiece {
  SumPiece piece;
  Bytes rest;
};
// A failure (io) says what is wrong with the bytes.
Result<ReadPiece> parse_sum_piece(const machine::Message& message);
// REQUIRES: a piece of the kind `shared`.
Result<SharedPart> parse_shared_part(const ReadPiece& read);

// A question about a call, and the answer: the call u64, then each worker i32. The index of
// the message is the channel.
struct MissingParts {
  std::uint32_t channel = 0;
  std::uint64_t call = 0;
  std::vector<std::int32_t> workers = {};
};
machine::Message encode(SumKind kind, const MissingParts& missing);
// Nothing: the bytes are no question and no answer.
std::optional<MissingParts> parse_missing_parts(const machine::Message& message);

// "100 f32 for average"
std::string describe(const SumPiece& piece);

}  // namespace paceline::server
