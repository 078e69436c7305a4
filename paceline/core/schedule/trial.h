// A plan tried on real links: carried out with gradients of full size, the computation waited for,
// or done by a kernel.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "paceline/core/base/trace_log.h"
#include "paceline/core/job/host_memory.h"
#include "paceline/core/job/job.h"
#include "paceline/core/schedule/compute_kernel.h"
#include "paceline/core/schedule/gradient_path.h"
#include "paceline/core/schedule/model.h"
#include "paceline/core/schedule/plan.h"

namespace paceline::schedule {

// The same on all ranks.
struct TrialRun {
  std::vector<double> seconds = {};  // of each step, of the slowest rank
  std::vector<double> exposed = {};  // of these, more than the model's computation
  double worked = 0;        // seconds a step that processors worked for a rank, in the mean
  std::int64_t errors = 0;  // wrong elements, of all ranks; 0 with codecs, which may lose
  GradientPath::CodecWork codec_work = {};  // of this rank
};

// The gradients of one model, in memory that ranks of a host share, for one plan after the other.
class Trial {
 public:
  // Collective. `group` and `model` outlive it, and so does the job, of which it takes memory and
  // trace; it may be null. `kernel` as in Replay. THROWS Error (io): no memory.
  Trial(Communicator& group, Job* job, const Model& model, ComputeKernel* kernel = nullptr);

  // Collective: one step to warm up, then `steps`. THROWS Error: misuse (a plan that cannot be
  // carried), what ended the communication.
  TrialRun run(
      const Plan& plan, int steps, const std::function<void(int step)>& on_step = [](int) {});

 private:
  std::vector<Buffer> groups_of(const Plan& plan);
  void fill();
  std::int64_t errors();

  Communicator& group_;
  TraceLog own_trace_;
  TraceLog& trace_;
  const Model& model_;
  ComputeKernel* const kernel_;
  HostMemory memory_;
};

}  // namespace paceline::schedule
