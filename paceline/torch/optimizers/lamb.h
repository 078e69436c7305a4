// LAMB: Adam whose step is as long as a share of each tensor's own norm
// (docs/optimizers/lamb.md). You et al., "Large batch optimization for deep learning: training BERT
// in 76 minutes", 2020.
#pragma once

#include <torch/arg.h>
#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <cstdint>
#include <tuple>
#include <vector>

#include "paceline/torch/optimizers/norms.h"

namespace paceline::optimizers {

struct LAMBOptions : torch::optim::OptimizerCloneableOptions<LAMBOptions> {
  LAMBOptions(double lr = 1e-3) : lr_(lr) {}
  using betas_t = std::tuple<double, double>;
  TORCH_ARG(double, lr);
  TORCH_ARG(betas_t, betas) = std::make_tuple(0.9, 0.999);
  TORCH_ARG(double, eps) = 1e-6;
  TORCH_ARG(double, weight_decay) = 0.01;
  // Adapts and decays tensors of at most one dimension too (LARSOptions).
  TORCH_ARG(bool, adapt_vectors) = false;

 public:
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  double get_lr() const override { return lr(); }
  void set_lr(double value) override { lr(value); }
};

struct LAMBParamState : torch::optim::OptimizerCloneableParamState<LAMBParamState> {
  TORCH_ARG(std::int64_t, step) = 0;
  TORCH_ARG(torch::Tensor, exp_avg);
  TORCH_ARG(torch::Tensor, exp_avg_sq);

 public:
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
};

class LAMB final : public torch::optim::Optimizer {
 public:
  explicit LAMB(const std::vector<torch::optim::OptimizerParamGroup>& groups,
                const LAMBOptions& defaults = {}, SumOverShards sum = {});
  explicit LAMB(std::vector<torch::Tensor> parameters, const LAMBOptions& defaults = {},
                SumOverShards sum = {})
      : LAMB({torch::optim::OptimizerParamGroup(std::move(parameters))}, defaults, std::move(sum)) {
  }

  torch::Tensor step(LossClosure closure = nullptr) override;
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  at::Tensor direction(const at::Tensor& parameter, const at::Tensor& gradient,
                       const LAMBOptions& options, double decay);

  const SumOverShards sum_;
};

}  // namespace paceline::optimizers
