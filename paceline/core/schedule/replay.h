// A training loop without a model: its computation is waited for, to the microsecond, or done by a
// kernel that takes a processor; its gradients really move (docs/schedules/README.md). What a
// schedule gains on these links, before anybody has written a line of a model.
#pragma once

#include <vector>

#include "paceline/core/base/deadline.h"
#include "paceline/core/base/trace_log.h"
#include "paceline/core/schedule/compute_kernel.h"
#include "paceline/core/schedule/gradient_path.h"
#include "paceline/core/schedule/model.h"

namespace paceline::schedule {

struct ReplayedStep {
  double seconds = 0;  // from one end of the backward pass to the next; with a barrier one lap
  double exposed = 0;  // of these, more than the model's computation
};

class Replay {
 public:
  // REQUIRES: they outlive this, and path was made of this model. `trace` is told of passes and
  // waits. `kernel` computes; nullptr: the computation is waited for.
  Replay(const Model& model, GradientPath& path, TraceLog& trace, ComputeKernel* kernel = nullptr);

  // One step. Across the barrier: from the end of one backward pass to the end of the next, so the
  // first step of all is shorter. Else forward and backward pass, the wait for all, and the update.
  // THROWS Error: what ended the communication.
  ReplayedStep step();
  // Waits for what is under way.
  void finish() { path_.finish(); }

 private:
  void compute(double seconds);
  void wait_for(int place);
  void forward();
  void backward();

  const Model& model_;
  GradientPath& path_;
  TraceLog& trace_;
  ComputeKernel* const kernel_;
  const bool crosses_barrier_;
  bool has_stepped_ = false;
  Clock::time_point now_ = Clock::now();  // how far the computation is
};

}  // namespace paceline::schedule
