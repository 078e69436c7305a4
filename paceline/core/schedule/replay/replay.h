// A training loop without a model: the computation is a wait, exact to the microsecond, or a kernel
// that takes a processor; the gradients really move (docs/schedules/README.md). It shows what a
// schedule gains on these links before a model is written.
#pragma once

#include "paceline/core/base/deadline.h"
#include "paceline/core/base/trace_log.h"
#include "paceline/core/schedule/order/model.h"
#include "paceline/core/schedule/path/gradient_path.h"
#include "paceline/core/schedule/replay/compute_kernel.h"

namespace paceline::schedule {

struct ReplayedStep {
  double seconds = 0;  // between ends of backward passes; with a barrier one lap
  double exposed = 0;  // seconds beyond the model's computation
};

class Replay {
 public:
  // `trace` records passes and waits. `kernel` computes; if it is nullptr, the computation is a
  // wait. REQUIRES: all arguments outlive this, and `path` was made of this model.
  Replay(const Model& model, GradientPath& path, TraceLog& trace, ComputeKernel* kernel = nullptr);

  // Runs one step. Across the barrier it lasts from the end of one backward pass to the end of the
  // next, so the very first step is shorter. With a barrier it is forward and backward pass, the
  // wait for all, and the update. THROWS Error: the failure that ended the communication.
  ReplayedStep step();
  // Waits for all messages under way.
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
