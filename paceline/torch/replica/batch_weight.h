// The weight of this rank's batch in the mean over all ranks, in steps of one or several backward
// passes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/torch/replica/parts/model_parts.h"
#include "paceline/torch/replica/synchrony.h"

namespace paceline::replica {

// WindowWeights: the weights that are said for the micro-batches of one step.
//
// They add up, and each micro-batch counts by its own. Losses are divided by the number of
// micro-batches, so equal weights leave gradients as they are. Where they differ, the gradients so
// far and those of the next pass are scaled, so that grad always is that mean over the window whose
// micro-batches count by their samples.
//
// Said once, before the first pass, a weight is that of the whole window, and so is one that is
// said after the last pass.
class WindowWeights {
 public:
  explicit WindowWeights(std::vector<Parameter> trained)
      : trained_(std::move(trained)), seen_in_(trained_.size()) {}

  // weight() was called, between two backward passes.
  void say(double weight);
  // A gradient of this parameter is about to be made. Returns the weight of the window where it
  // has grown. THROWS Error (misuse): what was said has no meaning that is sure.
  std::optional<double> arriving(std::size_t parameter);
  // The factor of the gradients of this pass.
  double factor() const { return factor_; }
  // Another step begins, with this weight until another one is said.
  void restart(double weight);

 private:
  std::optional<double> begin_micro_batch();
  void scale_gradients(double factor);

  const std::vector<Parameter> trained_;
  std::vector<std::uint64_t> seen_in_;  // by parameter: the last micro-batch with a gradient of it
  std::uint64_t micro_batch_ = 1;
  double present_ = 1;          // the weight of this micro-batch
  std::optional<double> next_;  // said since its last gradient
  double before_ = 0;           // the sum of those before it in this window
  int count_before_ = 0;
  bool is_said_ = false;              // in this window
  bool has_gradients_ = false;        // of this micro-batch
  bool has_several_passes_ = false;   // this micro-batch
  bool has_older_gradients_ = false;  // of another step
  bool are_equal_ = true;
  double factor_ = 1;
};

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

}  // namespace paceline::replica
