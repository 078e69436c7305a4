// The options of Communicator's methods, by which a caller describes an operation.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "paceline/core/base/bytes.h"
#include "paceline/core/base/reduce.h"

namespace paceline {

// The promise that the group makes about bits (docs/algorithms/README.md).
enum class Determinism : std::uint8_t {
  reproducible = 1,  // bits depend on values and rank count alone: every sum is the balanced tree
                     // in rank order; of f16 and bf16 it is made in f32 and rounded once
  fast,  // any algorithm; the same bits on all ranks, and from run to run for the same sizes; f16
         // and bf16 are rounded whenever a partial sum travels
};

// An all_reduce asks by this name for the board of ranks that share memory, which is no program and
// stands in no catalogue (collective/carrier/board.h).
inline constexpr std::string_view kBoard = "board";

struct OperationOptions {
  // Empty: the cheapest that the determinism allows; else a name of the catalogue.
  std::string_view algorithm = {};
  // The operation fails that long after this call; zero: the communicator's (10 min).
  std::chrono::milliseconds within = {};
};

struct AllReduceOptions {
  ReduceOp op = ReduceOp::sum;
  // With ReduceOp::average: result = sum of weight * input over the ranks / sum of the weights.
  // Unset on all ranks: every rank weighs 1. A weight of 0 contributes nothing (the input must
  // still be finite); when all are 0 the result is 0. COST: one pass over the input, none when all
  // ranks weigh the same. f16, bf16: inputs are multiplied by their share of the weights and
  // rounded.
  std::optional<double> weight = {};
  Bytes note = {};  // up to 64 KiB that every rank gets to see (Work::note), at no extra message;
                    // copied by the call
  std::string_view algorithm = {};
  std::chrono::milliseconds within = {};
};

struct ReduceOptions {
  ReduceOp op = ReduceOp::sum;
  std::string_view algorithm = {};
  std::chrono::milliseconds within = {};
};

// Elements of each rank's part, the same list on all ranks; empty: parts by the chunk rule
// (collective/program/partition.h).
using Counts = std::span<const std::size_t>;

struct ReduceScatterOptions {
  ReduceOp op = ReduceOp::sum;
  Counts counts = {};
  std::string_view algorithm = {};
  std::chrono::milliseconds within = {};
};

struct GatherOptions {  // also of all_gather and scatter
  Counts counts = {};
  std::string_view algorithm = {};
  std::chrono::milliseconds within = {};
};

inline constexpr int kAnyRank = -1;

struct PointToPointOptions {
  // Messages of one sender with the same tag arrive in the order of their sends.
  std::uint32_t tag = 0;
  std::chrono::milliseconds within = {};
  // False: nobody is told when the other side does not come for 5 s, because nobody waits for this
  // transfer yet.
  bool tells_stalls = true;
};

}  // namespace paceline
