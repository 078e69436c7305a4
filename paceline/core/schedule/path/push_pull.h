// PushPull: sums of the workers' arrays that the job's servers form, in place of an all_reduce.
//
//   schedule::PushPull servers(job);
//   servers.all_reduce(buffer_of(gradient), ReduceOp::average).wait();
//
// A worker pushes its array in parts of at most 1 MiB to the servers in turn, and pulls the sums:
// with S servers it sends and receives as many bytes as the array has, whatever the number of
// workers is. The bits are those of a reproducible all_reduce.
#pragma once

#include <memory>

#include "paceline/core/base/reduce.h"
#include "paceline/core/collective/call/work.h"
#include "paceline/core/job/job.h"

namespace paceline::schedule {

// THREAD: any, but all workers make the same calls of one object in the same order.
class PushPull {
 public:
  // All workers make it, in the same order as others; it waits for nobody, and must end before the
  // job. THROWS Error (misuse): a job without servers, or a server.
  explicit PushPull(Job& job);
  ~PushPull();  // its calls under way fail
  PushPull(const PushPull&) = delete;
  PushPull& operator=(const PushPull&) = delete;

  // `output` may be the input's memory. Both must stay until the Work is done. THROWS Error
  // (misuse): another type or length, or one that cannot be carried. The Work fails with mismatch
  // (the workers differ; both are named), peer_lost, timed_out (the job's operation timeout, which
  // ends the generation).
  Work all_reduce(ConstBuffer input, Buffer output, ReduceOp op);
  Work all_reduce(Buffer values, ReduceOp op) { return all_reduce(values, values, op); }

  // Seconds so far in which a call was under way.
  double seconds_in_flight() const;

 private:
  class Sums;
  class Timing;
  class Impl;
  static std::shared_ptr<Sums> sums_of(Job& job);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace paceline::schedule
