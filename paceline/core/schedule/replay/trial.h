// Tries a plan on real links, with gradients of full size and a computation that is a wait or a
// kernel.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "paceline/core/base/trace_log.h"
#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/job/job.h"
#include "paceline/core/schedule/order/gradient_plan.h"
#include "paceline/core/schedule/order/model.h"
#include "paceline/core/schedule/path/gradient_path.h"
#include "paceline/core/schedule/replay/compute_kernel.h"

namespace paceline::schedule {

// The result of a trial, the same on all ranks except for codec_work.
struct TrialRun {
  std::vector<double> seconds = {};  // of each step, on the slowest rank
  std::vector<double> exposed = {};  // seconds beyond the model's computation
  double worked = 0;                 // mean processor seconds of a rank in a step
  std::int64_t errors = 0;           // wrong elements on all ranks; 0 with codecs, which may lose
  GradientPath::CodecWork codec_work = {};  // of this rank
};

// Holds the gradients of one model, in memory that ranks of a host share, for several plans in
// turn.
class Trial {
 public:
  // Collective. `group`, `model` and `trace` must outlive this. `trace`: null for none. `kernel` is
  // as in Replay. `with_servers`: the job of `group`, for plans that go over its servers; it must
  // outlive this too. THROWS Error (io): no memory.
  Trial(Communicator& group, const Model& model, TraceLog* trace = nullptr,
        ComputeKernel* kernel = nullptr, Job* with_servers = nullptr);

  // Collective: runs one step to warm up, then `steps`. THROWS Error: misuse (the plan cannot be
  // carried out), or the failure that ended the communication.
  TrialRun run(
      const MessagePlan& plan, int steps,
      const std::function<void(int step)>& on_step = [](int) {});

 private:
  std::vector<Buffer> groups_of(const MessagePlan& plan);
  void fill();
  std::int64_t errors();

  Communicator& group_;
  TraceLog own_trace_;
  TraceLog& trace_;
  const Model& model_;
  ComputeKernel* const kernel_;
  Job* const with_servers_;
  Allocation memory_;
};

// The processors of a rank, which it shares with other ranks of its machine: those of a pool over
// the ranks that share it, for the pool in which this is least.
double processors_of_each(const Communicator& group);

// Processor seconds that this process has used.
double worked_seconds();

}  // namespace paceline::schedule
