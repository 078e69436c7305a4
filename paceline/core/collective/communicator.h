// Communicator: one group of ranks in one generation of a job, and what they do together.
//
// Every operation returns a Work at once and runs in the background; `.wait()` blocks, and then the calling thread itself
// drives it. All ranks of the group must call the same operations in the same order with matching arguments; the first call
// that differs is named on every rank (docs/errors.md). After a failure the communicator is dead: every later call throws its cause.
// Buffers must stay valid and untouched until the operation is done.
// THREAD: every method may be called from any thread; calls on one communicator from several threads must be ordered by the caller.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "paceline/core/base/bytes.h"
#include "paceline/core/base/reduce.h"
#include "paceline/core/collective/operation.h"
#include "paceline/core/collective/work.h"
#include "paceline/core/membership/job.h"

namespace paceline {

// Which promise about bits the group makes (design: architecture.md, "The same bits").
enum class Determinism : std::uint8_t {
  reproducible = 1,  // bits depend on values and rank count alone: every sum is the balanced tree in rank order
  fast,              // any algorithm; the same bits on all ranks, and from run to run for the same sizes
};

struct OperationOptions {
  std::string_view algorithm = {};        // empty: the cheapest that the determinism allows; else a name of the catalogue
  std::chrono::milliseconds within = {};  // the operation fails that long after this call; zero: the communicator's (10 min)
};

struct AllReduceOptions {
  ReduceOp op = ReduceOp::sum;
  // With ReduceOp::average: result = sum of weight * input over the ranks / sum of the weights. Unset on all ranks: every rank weighs 1.
  // A weight of 0 contributes nothing (the input must still be finite); when all are 0 the result is 0. COST: one pass over the
  // input, none when all ranks weigh the same.
  std::optional<double> weight = {};
  Bytes note = {};                // up to 64 KiB that every rank gets to see (Work::note), at no extra message; copied by the call
  std::string_view algorithm = {};
  std::chrono::milliseconds within = {};
};

struct ReduceScatterOptions {
  ReduceOp op = ReduceOp::sum;
  std::string_view algorithm = {};
  std::chrono::milliseconds within = {};
};

struct PointToPointOptions {
  std::uint32_t tag = 0;                  // messages of one sender with the same tag arrive in the order of their sends
  std::chrono::milliseconds within = {};
};

// What a communicator has done so far, on this rank.
struct Traffic {
  std::uint64_t operations = 0;      // collectives and point-to-point operations that ended
  std::uint64_t messages_sent = 0;   // data messages, call frames not counted
  std::uint64_t bytes_sent = 0;      // their payload, whether it was copied to a wire or read by the peer
  std::uint64_t bytes_reduced = 0;   // bytes of results of two-operand reductions
  std::chrono::nanoseconds in_flight = {};  // time in which at least one operation was in flight
  std::chrono::nanoseconds waited = {};     // time that callers spent in Work::wait
};

class Communicator {
 public:
  class Impl;
  explicit Communicator(std::unique_ptr<Impl> impl);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const;
  int size() const;
  const std::string& name() const;  // "world"
  Determinism determinism() const;

  // Every rank ends with the reduction of all ranks' buffers. Which reductions an element type has: can_reduce (base/reduce.h).
  Work all_reduce(Buffer inout, const AllReduceOptions& options = {});
  Work all_reduce(ConstBuffer in, Buffer out, const AllReduceOptions& options = {});

  // Rank r ends with chunk r of the reduction of all inputs; out.count must be chunk r's length by the chunk rule
  // (collective/partition.h). In place: out.data is where chunk r lies in `in`; the other chunks are unspecified then.
  Work reduce_scatter(ConstBuffer in, Buffer out, const ReduceScatterOptions& options = {});

  // Every rank ends with all inputs one after the other in rank order; in.count must be chunk rank's length of out.count by the
  // chunk rule (so equal counts when size() divides out.count). In place: in.data is where the own chunk lies in `out`.
  Work all_gather(ConstBuffer in, Buffer out, const OperationOptions& options = {});

  Work broadcast(Buffer inout, int root = 0, const OperationOptions& options = {});

  // Done when every rank has called it.
  Work barrier(const OperationOptions& options = {});

  // Matched by (sender, tag), first come first served; dtype and count must be equal on both sides. Messages below 64 KiB are
  // buffered (up to 1 MiB for each peer), longer ones wait for their recv. A rank may send to itself.
  Work send(ConstBuffer data, int to, const PointToPointOptions& options = {});
  Work recv(Buffer into, int from, const PointToPointOptions& options = {});

  Traffic traffic() const;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace paceline
