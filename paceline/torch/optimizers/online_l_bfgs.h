// OnlineLBFGS: L-BFGS on mini-batches, without a line search (docs/optimizers/online_l_bfgs.md).
// Schraudolph, Yu, Guenter, "A stochastic quasi-Newton method for online convex optimization",
// 2007.
#pragma once

#include <torch/arg.h>
#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "paceline/torch/optimizers/curvature_pairs.h"

namespace paceline::optimizers {

struct OnlineLBFGSOptions : torch::optim::OptimizerCloneableOptions<OnlineLBFGSOptions> {
  OnlineLBFGSOptions(double lr = 0.5) : lr_(lr) {}
  TORCH_ARG(double, lr);
  TORCH_ARG(double, decay_steps) = 100;        // k0: step k has the rate lr k0 / (k0 + k); 0: lr
  TORCH_ARG(double, damping) = 1e-3;           // y += damping s
  TORCH_ARG(std::int64_t, history_size) = 10;  // pairs

 public:
  double get_lr() const override { return lr(); }
  void set_lr(double value) override { lr(value); }
};

// THREAD: one.
class OnlineLBFGS final : public torch::optim::Optimizer {
 public:
  explicit OnlineLBFGS(std::vector<torch::Tensor> parameters,
                       const OnlineLBFGSOptions& defaults = {});

  // One step. The closure is that of QuasiNewton; it is called before and after the move, on the
  // same batch, so that the change of the gradient is no noise of sampling. Returns the loss
  // before.
  torch::Tensor step(LossClosure closure) override;

  // For checkpoints, as QuasiNewton's.
  template <typename Fields>
  void state_fields(Fields& fields) {
    fields("steps", steps_);
    pairs_.state(fields);
  }

 private:
  const FlatParameters parameters_;
  CurvaturePairs pairs_;
  std::int64_t steps_ = 0;
};

}  // namespace paceline::optimizers
