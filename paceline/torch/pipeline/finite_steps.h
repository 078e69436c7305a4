// FiniteSteps: steps of a pipeline in which a gradient is NaN or infinite. All stages leave such a
// step out, or end by the same text, whichever stage has the gradient
// (DataParallelOptions::non_finite). With fp16 the scale of the loss changes here.
#pragma once

#include <cstdint>
#include <optional>

#include "paceline/core/mesh/mesh.h"
#include "paceline/torch/pipeline/made_stages.h"
#include "paceline/torch/replica/grads/finite_watch.h"

namespace paceline::pipeline {

// THREAD: one.
class FiniteSteps {
 public:
  // `mesh` and `stages` outlive this. THROWS Error (misuse): the options are none of those that they
  // can be.
  FiniteSteps(const DataParallelOptions& options, DeviceMesh& mesh, MadeStages& stages);

  bool looks() const { return watch_.looks() || stages_.loss_scale().has_value(); }
  // True: the mean gradients of all stages are finite and those of the loss as it is, so that the
  // optimizers may step. False: the step is left out, and the gradients are gone. `loss`: of this
  // rank, if it has the last stage. Every rank of the mesh calls it. COST: one all_reduce of a
  // number. THROWS Error (misuse), on all ranks, which names the first gradient of the lowest rank
  // that has one: the policy is "throw" and the scale of fp16 is not to blame, or too many steps in
  // a row were left out.
  bool passes(std::optional<double> loss);
  std::int64_t skipped() const { return watch_.skipped(); }  // so far

 private:
  bool is_scale_to_blame(std::optional<double> loss) const;

  Communicator& world_;
  MadeStages& stages_;
  replica::FiniteWatch watch_;
};

}  // namespace paceline::pipeline
