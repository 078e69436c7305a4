// The weight of this rank's batch in the mean over all ranks, in steps of one or several backward
// passes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <optional>
#include <string>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/torch/replica/grads/window_weights.h"
#include "paceline/torch/replica/parts/model_parts.h"
#include "paceline/torch/replica/rank_weight.h"
#include "paceline/torch/replica/synchrony.h"

namespace paceline::parallel {

// THREAD: one.
class BatchWeight {
 public:
  // It is that of steps of these parameters. `is_told_at_once`: ranks tell their weights in the
  // first forward pass of a step (zero_stage 3).
  void bind(const ModelParts& parts, bool is_told_at_once);

  const RankWeight& now() const { return weight_; }
  bool counts() const { return weight_.weight > 0; }
  // DataParallel::weight(). THROWS Error (misuse): as that tells.
  void say(double weight, Synchrony& synchrony);
  // Goes back to what now() returned earlier.
  void restore(const RankWeight& weight, Synchrony& synchrony);

  // A pass is about to make the parameter's gradient.
  void arriving(std::size_t parameter, Synchrony& synchrony);
  // The present pass counts by it.
  double factor() const { return window_->factor(); }
  // The step has ended.
  void restart() { window_->restart(weight_.weight); }

  // DataParallel::mean(), over the ranks of `calls`.
  at::Tensor mean(const at::Tensor& value, Synchrony& synchrony, Communicator& calls) const;

 private:
  RankWeight weight_;  // of the step, so far
  std::optional<WindowWeights> window_;
  bool is_told_at_once_ = false;
};

}  // namespace paceline::parallel
