// Communicator: one group of ranks in one generation of a job, and what they do together.
//
// Every operation returns a Work at once and runs in the background; `.wait()` blocks, and then the
// calling thread itself drives it. All ranks of the group must call the same operations in the same
// order with matching arguments; the first call that differs is named on every rank
// (docs/errors.md). After a failure the communicator is dead: every later call throws its cause.
// Buffers must stay valid and untouched until the operation is done.
// THREAD: every method may be called from any thread; calls on one communicator from several
// threads must be ordered by the caller.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/base/reduce.h"
#include "paceline/core/collective/call/options.h"
#include "paceline/core/collective/call/traffic.h"
#include "paceline/core/collective/call/work.h"
#include "paceline/core/collective/program/operation.h"
#include "paceline/core/membership/generation/allocation.h"
#include "paceline/core/topology/hosts.h"

namespace paceline {

namespace collective {
struct MachineLinks;
}

class Communicator {
 public:
  class Impl;
  explicit Communicator(std::unique_ptr<Impl> impl);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const;  // in this group
  int size() const;
  int world_rank(int rank) const;       // of a rank of this group
  topology::Topology topology() const;  // which ranks of this group share a host
  const std::string& name() const;      // "world"; of the third split of it, color 1: "world.3.1"
  Determinism determinism() const;
  // Names that options.algorithm may have here: those of the catalogue that fit this group and that
  // its determinism allows. They live as long as the Communicator.
  std::vector<std::string_view> algorithms(Operation operation, Dtype dtype = Dtype::f32,
                                           ReduceOp op = ReduceOp::sum) const;

  // The same with what the model says of `bytes` of one rank's buffer on the host. The first one is
  // what an operation without a name takes (carrier()), whatever its price: groups of few ranks
  // always take their board. The others follow, the cheapest first. The model has no price for
  // links, gathered and engines, which algorithms() does not name: as the first one they bear the
  // price of the cheapest of the others.
  std::vector<Forecast> forecasts(Operation operation, std::size_t bytes, Dtype dtype = Dtype::f32,
                                  ReduceOp op = ReduceOp::sum) const;

  // The way that such an operation takes: the name of an algorithm or, where no program carries it,
  // board, links, gathered (call/route.h), or an engine's name (mpi). Calls with buffers on devices
  // may go another way: by device kernels or nccl.
  std::string_view carrier(Operation operation, std::size_t bytes, Dtype dtype = Dtype::f32,
                           ReduceOp op = ReduceOp::sum) const;

  // THROWS Error (misuse) that names the call `what`, inside a callback of Work::on_done, where
  // nothing may wait. A function that waits for what it has lent of its own frame asks first.
  void check_may_wait(std::string_view what) const;

  // Memory for buffers of this group, which its ranks on this host reach without copies. THROWS
  // Error (io) that names the limit and the remedy when it cannot be had.
  Allocation allocate(std::size_t bytes) const;

  // Buffers: input and output are the same memory (in place) or do not overlap.

  // Every rank ends with the reduction of all ranks' buffers. Which reductions an element type has:
  // can_reduce (base/reduce.h).
  Work all_reduce(Buffer inout, const AllReduceOptions& options = {});
  Work all_reduce(ConstBuffer in, Buffer out, const AllReduceOptions& options = {});
  // The same for one number, such as a loss or a count (whole numbers are exact up to 2^53): it
  // blocks, and returns the result.
  double all_reduce(double value, ReduceOp op = ReduceOp::sum);

  // The root alone ends with the reduction; the others' `out` is neither read nor written, and may
  // be empty.
  Work reduce(ConstBuffer in, Buffer out, int root = 0, const ReduceOptions& options = {});
  Work reduce(Buffer inout, int root = 0, const ReduceOptions& options = {});

  // Rank r ends with part r of the reduction of all inputs; out.count must be the length of part r.
  // In place: out.data is where part r lies in `in`; the other parts are unspecified then.
  Work reduce_scatter(ConstBuffer in, Buffer out, const ReduceScatterOptions& options = {});

  // Every rank ends with all inputs one after the other in rank order; in.count must be the length
  // of the own part of out.count (so equal counts when size() divides out.count). In place: in.data
  // is where the own part lies in `out`.
  Work all_gather(ConstBuffer in, Buffer out, const GatherOptions& options = {});

  // The root alone ends with all inputs one after the other. Without counts every rank brings as
  // many elements. The others' `out` may be empty. In place at the root: in.data is where its part
  // lies in `out`.
  Work gather(ConstBuffer in, Buffer out, int root = 0, const GatherOptions& options = {});

  // Rank r ends with part r of the root's input. Without counts all parts are equal. The others'
  // `in` may be empty. In place at the root: out.data is where its part lies in `in`.
  Work scatter(ConstBuffer in, Buffer out, int root = 0, const GatherOptions& options = {});

  // Rank r ends with part r of every rank's input, one after the other in rank order. Without
  // counts all parts are equal; else in is cut by send_counts and out by recv_counts, and what rank
  // a sends to b must be what b expects of a. All ranks give counts, or none does. COST: in place,
  // a copy of the input beforehand.
  Work all_to_all(ConstBuffer in, Buffer out, const OperationOptions& options = {});
  Work all_to_all(ConstBuffer in, Counts send_counts, Buffer out, Counts recv_counts,
                  const OperationOptions& options = {});

  Work broadcast(Buffer inout, int root = 0, const OperationOptions& options = {});

  // Done when every rank has called it.
  Work barrier(const OperationOptions& options = {});

  // Matched by (sender, tag), first come first served; dtype and count must be equal on both sides.
  // Messages below 64 KiB are buffered (up to 1 MiB for each peer), longer ones wait for their
  // recv. A rank may send to itself. A recv from kAnyRank takes the first message with its tag that
  // this rank hears of (Work::source tells whose); a message goes to the recv that was posted first
  // among those that it fits.
  Work send(ConstBuffer data, int to, const PointToPointOptions& options = {});
  Work recv(Buffer into, int from, const PointToPointOptions& options = {});

  // A new group of those ranks of this one that give the same color (>= 0), ordered by (key, rank);
  // nullptr for a negative color. Blocks; every rank of this group must call it, in the order of
  // its other operations. The new group has sequence numbers, tags and checks of its own, and
  // shares the links; it must end before the Job.
  std::unique_ptr<Communicator> split(int color, int key = 0);
  // The same for one list of ranks of this group, which every rank of this group must give; nullptr
  // for those not in it.
  std::unique_ptr<Communicator> subgroup(std::span<const int> ranks);

  // For a machine that runs among the ranks of this group: core/coordination/machine_run.h calls
  // it. Blocks; every rank of this group must call it, in the order of its other operations.
  collective::MachineLinks machine_links();

  // Ends the generation: everything in flight on every rank fails with `reason`, and so does every
  // later call. On this rank all has ended when it returns, unless a callback of on_done calls it.
  void abort(const std::string& reason);

  // For an owner of buffers that an exception takes away: its destructor calls this before their
  // memory goes. Everything in flight on this rank ends, so that nobody uses the memory any more;
  // the others hear the exception's text, as they do when the communicator itself goes by it.
  // Nothing while no operation is in flight.
  void unwind();

  Traffic traffic() const;
  // Added up over all groups that came by split() and subgroup() from the same one as this, with
  // those that have ended.
  Traffic traffic_of_all_groups() const;

 private:
  std::unique_ptr<Communicator> group_of(const std::string& name, int color, int key,
                                         std::uint64_t agreed);

  std::unique_ptr<Impl> impl_;
};

}  // namespace paceline
