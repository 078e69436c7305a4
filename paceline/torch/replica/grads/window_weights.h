// WindowWeights: the weights that are said for the micro-batches of one step.
//
// They add up, and each micro-batch counts by its own. Losses are divided by the number of
// micro-batches, so equal weights leave gradients as they are. Where they differ, the gradients so
// far and those of the next pass are scaled, so that grad always is that mean over the window whose
// micro-batches count by their samples.
//
// Said once, before the first pass, a weight is that of the whole window, and so is one that is
// said after the last pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "paceline/torch/replica/parts/model_parts.h"

namespace paceline::parallel {

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

}  // namespace paceline::parallel
