// Means on their way back: they are waited for at the end of a step, or, where the schedule crosses
// the barrier, come later. Then each bucket's parameters are updated, once, when its means are
// there: before their first use, or before the next step begins. A bucket that overflowed is not.
#pragma once

#include <cstddef>
#include <vector>

#include "paceline/torch/gradient/gradient_step.h"
#include "paceline/torch/gradient/means.h"
#include "paceline/torch/gradient/outgoing_buckets.h"
#include "paceline/torch/replica/parts/model_parts.h"
#include "paceline/torch/replica/per_parameter_optimizers.h"

namespace paceline::gradient {

// THREAD: one. THROWS Error, from every call: what ended the communication.
class IncomingMeans {
 public:
  // The first `dense` of the parameters may lie in buckets. All outlive this.
  IncomingMeans(const std::vector<replica::Parameter>& parameters, std::size_t dense, Means& means,
                OutgoingBuckets& buckets, GradientStep& step)
      : parameters_(parameters), dense_(dense), means_(means), buckets_(buckets), step_(step) {}

  // Waits for the means and hands them out, for the parameters that are `used`. False: a value
  // overflowed on its way.
  bool publish(const std::vector<bool>& used);

  // Lets them come; `updates` steps with them.
  void let_come(std::vector<bool> used, replica::PerParameterOptimizers& updates);
  bool are_under_way() const { return are_under_way_; }
  // Updates the parameter, if its means are not back.
  void before_use(std::size_t parameter);
  // Updates all of these.
  void drain();
  // The layout of the means has changed. REQUIRES: nothing is under way.
  void lay_out_anew() { in_flight_.clear(); }

 private:
  bool wait_for(std::size_t bucket);
  void finish_bucket(std::size_t bucket);

  const std::vector<replica::Parameter>& parameters_;
  const std::size_t dense_;
  Means& means_;
  OutgoingBuckets& buckets_;
  GradientStep& step_;
  std::vector<bool> used_;       // by parameter, in the step that is under way
  std::vector<bool> in_flight_;  // by bucket: the step ended, and its means are not back
  replica::PerParameterOptimizers* updates_ = nullptr;
  bool are_under_way_ = false;
};

}  // namespace paceline::gradient
