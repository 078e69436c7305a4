// A schedule on real links: its plan carried out with gradients of full size, the computation
// waited for.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "paceline/core/membership/job.h"
#include "paceline/core/schedule/gradient_path.h"
#include "paceline/core/schedule/model.h"
#include "paceline/core/schedule/plan.h"

namespace paceline::measure {

// The same on all ranks.
struct ScheduleRun {
  std::vector<double> seconds = {};  // of each step, of the slowest rank
  std::vector<double> exposed = {};  // of these, not computed
  double worked = 0;        // seconds a step that processors worked for a rank, in the mean
  std::int64_t errors = 0;  // wrong elements, of all ranks; 0 with codecs, which may lose
  schedule::GradientPath::CodecWork codec_work = {};  // of this rank
};

// The gradients of one model, in memory that ranks of a host share, for one plan after the other.
class ScheduleBench {
 public:
  // Collective. `job` and `model` outlive it. THROWS Error (io): no memory.
  ScheduleBench(Job& job, const schedule::Model& model);

  // Collective: one step to warm up, then `steps`. THROWS Error: misuse (a plan that cannot be
  // carried), what ended the communication.
  ScheduleRun run(
      const schedule::Plan& plan, int steps,
      const std::function<void(int step)>& on_step = [](int) {});

 private:
  std::vector<Buffer> groups_of(const schedule::Plan& plan);
  void fill();
  std::int64_t errors();

  Job& job_;
  const schedule::Model& model_;
  Allocation memory_;
};

}  // namespace paceline::measure
