// FiniteSteps: steps of a pipeline in which a gradient is NaN or infinite. All stages leave such a
// step out, or end by the same text, whichever stage has the gradient
// (DataParallelOptions::non_finite).
#pragma once

#include <cstdint>
#include <vector>

#include "paceline/core/mesh/mesh.h"
#include "paceline/torch/pipeline/stages_of_rank.h"
#include "paceline/torch/replica/grads/finite_watch.h"

namespace paceline::pipeline {

// THREAD: one.
class FiniteSteps {
 public:
  // `mesh` outlives this. THROWS Error (misuse): the options are none of those that they can be.
  FiniteSteps(const DataParallelOptions& options, DeviceMesh& mesh);

  bool looks() const { return watch_.looks(); }
  // True: the mean gradients of all stages are finite, so that the optimizers may step. False: the
  // step is left out, and the gradients are gone. Every rank of the mesh calls it. COST: one
  // all_reduce of a number. THROWS Error (misuse), on all ranks, which names the first gradient of
  // the lowest rank that has one: the policy is "throw", or too many steps in a row were left out.
  bool passes(std::vector<Chunk>& chunks, std::int64_t step);
  std::int64_t skipped() const { return watch_.skipped(); }  // so far

 private:
  Communicator& world_;
  replica::FiniteWatch watch_;
};

}  // namespace paceline::pipeline
