// The optimizers with which steps end, on all ranks alike: their rates are equal, and so are their
// states where replicas are.
#pragma once

#include <torch/optim/optimizer.h>

#include <string>
#include <unordered_set>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/torch/replica/leaves.h"
#include "paceline/torch/replica/synchrony.h"

namespace paceline::replica {

// Optimizers are never followed later, for they may be gone. THREAD: one.
class CallersOptimizers {
 public:
  // These end the step, and the synchrony shall know, or need not.
  void end_step_with(Optimizers optimizers, Synchrony& synchrony);
  void end_step_with(Optimizers optimizers) { present_ = std::move(optimizers); }
  const Optimizers& present() const { return present_; }
  // Collective, where fingerprints of the rates differ. THROWS Error (mismatch): rates differ; the
  // synchrony fails.
  void require_equal_rates(Synchrony& synchrony, const Leaves& leaves, Communicator& calls) const;

  // A step ended with this one.
  void stepped(const torch::optim::Optimizer& optimizer) { last_ = &optimizer; }
  // A text on a step to which backward() brought nothing, if another optimizer ended the last one;
  // else empty. `seer`: the synchrony that has to see updates; empty: it need not.
  std::string complaint_of_second(const torch::optim::Optimizer& optimizer,
                                  const std::string& seer) const;

  // The replicas are made equal; their optimizers are new.
  void begin() { may_differ_ = false; }
  // Another synchrony follows one in which replicas may have differed.
  void go_on(bool may_have_differed);
  // Whether some have states of their own, and none has taken the mean.
  bool are_unequal() const { return may_differ_ && equalised_.empty(); }
  // Collective: optimizers with states of their own would let equal replicas drift apart, so each
  // takes the mean when it steps first. All ranks have the same ones in the same order.
  void equalise(const Optimizers& optimizers, Communicator& calls);

 private:
  Optimizers present_;
  const torch::optim::Optimizer* last_ = nullptr;
  // Replicas are equal from here on, and their optimizers, which the caller has, may not be yet.
  bool may_differ_ = false;
  std::unordered_set<const torch::optim::Optimizer*> equalised_;  // that have taken the mean since
};

}  // namespace paceline::replica
