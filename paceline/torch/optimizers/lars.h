// LARS: SGD with momentum whose rate is each tensor's own, in proportion to |w| / |g|
// (docs/optimizers/lars.md). You, Gitman, Ginsburg, "Large batch training of convolutional
// networks", 2017.
#pragma once

#include <torch/arg.h>
#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <vector>

#include "paceline/torch/optimizers/norms.h"

namespace paceline::optimizers {

struct LARSOptions : torch::optim::OptimizerCloneableOptions<LARSOptions> {
  LARSOptions(double lr = 0.1) : lr_(lr) {}
  TORCH_ARG(double, lr);
  TORCH_ARG(double, momentum) = 0.9;
  TORCH_ARG(double, weight_decay) = 5e-4;
  TORCH_ARG(double, trust_coefficient) = 1e-3;
  TORCH_ARG(double, eps) = 0;
  // Adapts and decays tensors of at most one dimension too, as flat shards of parameters are.
  // Otherwise these are biases and the parameters of norms, which are left out.
  TORCH_ARG(bool, adapt_vectors) = false;

 public:
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  double get_lr() const override { return lr(); }
  void set_lr(double value) override { lr(value); }
};

struct LARSParamState : torch::optim::OptimizerCloneableParamState<LARSParamState> {
  TORCH_ARG(torch::Tensor, momentum_buffer);  // the rate is inside: a change of it is felt later

 public:
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
};

class LARS final : public torch::optim::Optimizer {
 public:
  explicit LARS(const std::vector<torch::optim::OptimizerParamGroup>& groups,
                const LARSOptions& defaults = {}, SumOverShards sum = {});
  explicit LARS(std::vector<torch::Tensor> parameters, const LARSOptions& defaults = {},
                SumOverShards sum = {})
      : LARS({torch::optim::OptimizerParamGroup(std::move(parameters))}, defaults, std::move(sum)) {
  }

  torch::Tensor step(LossClosure closure = nullptr) override;
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  const SumOverShards sum_;
};

}  // namespace paceline::optimizers
