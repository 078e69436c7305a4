// DistributedOptimizer: data parallel training in Horovod's form, an optimizer that wraps an
// optimizer.
//
//   torch::optim::SGD sgd(model->parameters(), 0.1);
//   paceline::DistributedOptimizer optimizer(sgd, job);
//   for (auto& batch : loader) {
//     optimizer.zero_grad();
//     loss(model, batch).backward();
//     optimizer.step();                       // waits for the mean gradients, then sgd.step()
//   }
//
// To touch the mean gradients first:
//     optimizer.synchronize();
//     paceline::clip_grad_norm(model->parameters(), 1.0);
//     { const auto skip = optimizer.skip_synchronize(); optimizer.step(); }
//
// It is DataParallel over the optimizer's parameters (data_parallel.h), which tells what holds for
// both. Unlike Horovod's it starts with rank 0's parameters on all ranks by itself. What it does
// not know is the model: buffers stay each rank's own, and SyncBatchNorm layers have to be told the
// ranks (compute_over). Learning rate schedulers work on the wrapped optimizer.
#pragma once

#include <torch/optim/optimizer.h>

#include <memory>

#include "paceline/torch/parallel/data_parallel.h"

namespace paceline {

// THREAD: one, that which also runs the backward passes. The wrapped optimizer and the Job or group
// outlive this.
class DistributedOptimizer {
 public:
  // `options.backward_passes_per_step` is Horovod's: that many backward passes add up before they
  // are sent; nothing divides them. THROWS Error: as DataParallel's constructor; misuse,
  // `options.optimizer` is given, which nobody would step. Parameters are called "group 0,
  // parameter 3".
  DistributedOptimizer(torch::optim::Optimizer& optimizer, Job& job,
                       const DataParallelOptions& options = {});
  DistributedOptimizer(torch::optim::Optimizer& optimizer, Communicator& group,
                       const DataParallelOptions& options = {});

  void zero_grad(bool set_to_none = true) { optimizer_.zero_grad(set_to_none); }
  void weight(double samples) { parallel_.weight(samples); }

  // Ends the exchange: gradients are those of the global batch. False: no rank has a batch left.
  bool synchronize();

  // synchronize(), then the wrapped optimizer's step(), unless no rank had a batch. THROWS Error
  // (misuse) after a synchronize() without skip_synchronize().
  bool step();

  // While it lives, step() does not synchronize.
  class SkipSynchronize {
   public:
    SkipSynchronize(SkipSynchronize&& other) noexcept : skip_(std::move(other.skip_)) {}
    SkipSynchronize& operator=(SkipSynchronize&&) = delete;
    ~SkipSynchronize() {
      if (skip_ != nullptr) *skip_ = false;
    }

   private:
    friend class DistributedOptimizer;
    explicit SkipSynchronize(DistributedOptimizer& optimizer) : skip_(optimizer.skip_) {
      *skip_ = true;
    }
    std::shared_ptr<bool> skip_;  // the optimizer may be gone before
  };
  [[nodiscard]] SkipSynchronize skip_synchronize() { return SkipSynchronize(*this); }

  torch::optim::Optimizer& wrapped() { return optimizer_; }
  DataParallel& parallel() { return parallel_; }

 private:
  torch::optim::Optimizer& optimizer_;
  DataParallel parallel_;
  const std::shared_ptr<bool> skip_ = std::make_shared<bool>(false);
  bool synchronized_ = false;  // since the last step
  bool any_batch_ = true;      // what the last synchronize() returned
};

}  // namespace paceline
