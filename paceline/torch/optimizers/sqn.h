// SQN: stochastic quasi-Newton steps, whose curvature comes from Hessian-vector products at
// averaged iterates, so that no difference of two noisy gradients is ever taken
// (docs/optimizers/sqn.md). Byrd, Hansen, Nocedal, Singer, "A stochastic quasi-Newton method for
// large-scale optimization", 2016.
//
//   optimizer.zero_grad();
//   loss(model, batch).backward();
//   parallel.step(optimizer);
//   if (optimizer.wants_curvature()) {
//     optimizer.measure_curvature([&] { return loss(model, curvature_batch); },
//                                 [&] { parallel.synchronize(); });
//   }
#pragma once

#include <torch/arg.h>
#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "paceline/torch/optimizers/curvature_pairs.h"

namespace paceline::optimizers {

struct SQNOptions : torch::optim::OptimizerCloneableOptions<SQNOptions> {
  SQNOptions(double lr = 1) : lr_(lr) {}
  TORCH_ARG(double, lr);
  TORCH_ARG(double, decay_steps) = 20;         // k0: step k has the rate lr k0 / (k0 + k); 0: lr
  TORCH_ARG(std::int64_t, period) = 10;        // steps from one pair to the next
  TORCH_ARG(std::int64_t, history_size) = 10;  // pairs

 public:
  double get_lr() const override { return lr(); }
  void set_lr(double value) override { lr(value); }
};

// THREAD: one.
class SQN final : public torch::optim::Optimizer {
 public:
  explicit SQN(std::vector<torch::Tensor> parameters, const SQNOptions& defaults = {});

  // One step by the grads as they are; along the gradient until there are two pairs.
  torch::Tensor step(LossClosure closure = nullptr) override;

  // A period has ended, and there is an earlier one to compare it with: measure_curvature() is due
  // before the next step. On all ranks in the same steps.
  bool wants_curvature() const { return move_.defined(); }
  // Adds the pair of the move of the average, and of the Hessian of `loss` at the average times
  // this move. `loss`: this rank's, on a batch of its own, larger than those of steps (a few
  // hundred samples). `exchange` makes the grads those of all ranks. The grads are cleared, and the
  // parameters as before. COST: a backward pass twice as long, and one exchange, every `period`
  // steps.
  void measure_curvature(const LossClosure& loss, const std::function<void()>& exchange = {});

  // For checkpoints, as QuasiNewton's; between a step and measure_curvature() there is more.
  template <typename Fields>
  void state_fields(Fields& fields) {
    fields("steps", steps_);
    fields("sum", sum_);
    fields("average", average_);
    pairs_.state(fields);
  }

 private:
  const FlatParameters parameters_;
  CurvaturePairs pairs_;
  at::Tensor sum_;      // of the iterates of this period
  at::Tensor average_;  // of the last period
  at::Tensor move_;     // of the average, while a measurement is due
  std::int64_t steps_ = 0;
};

}  // namespace paceline::optimizers
