// SVRG: SGD whose gradients lose their variance, because each is corrected by the same batch's
// gradient at an earlier snapshot (docs/optimizers/svrg.md). Johnson, Zhang, "Accelerating
// stochastic gradient descent using predictive variance reduction", 2013.
//
//   // At the beginning of each outer pass: the grads become those of all samples of all ranks.
//   optimizer.zero_grad();
//   ...backward passes over this rank's samples; parallel.synchronize();
//   optimizer.take_snapshot();
//   // In each step: one exchange, of the difference of two gradients.
//   optimizer.zero_grad();
//   optimizer.subtract_at_snapshot([&] { return loss(model, batch); });
//   loss(model, batch).backward();
//   parallel.step(optimizer);
#pragma once

#include <torch/arg.h>
#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <utility>
#include <vector>

namespace paceline::optimizers {

struct SVRGOptions : torch::optim::OptimizerCloneableOptions<SVRGOptions> {
  SVRGOptions(double lr = 0.1) : lr_(lr) {}
  TORCH_ARG(double, lr);

 public:
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  double get_lr() const override { return lr(); }
  void set_lr(double value) override { lr(value); }
};

struct SVRGParamState : torch::optim::OptimizerCloneableParamState<SVRGParamState> {
  TORCH_ARG(torch::Tensor, snapshot);       // the parameter at the beginning of the outer pass
  TORCH_ARG(torch::Tensor, full_gradient);  // of all samples there

 public:
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
};

// THREAD: one.
class SVRG final : public torch::optim::Optimizer {
 public:
  explicit SVRG(const std::vector<torch::optim::OptimizerParamGroup>& groups,
                const SVRGOptions& defaults = {})
      : Optimizer(groups, std::make_unique<SVRGOptions>(defaults)) {}
  explicit SVRG(std::vector<torch::Tensor> parameters, const SVRGOptions& defaults = {})
      : SVRG({torch::optim::OptimizerParamGroup(std::move(parameters))}, defaults) {}

  // Keeps the parameters as they are, and the grads as the full gradient there; clears the grads.
  void take_snapshot();

  // Sets each grad to minus the gradient of `loss` at the snapshot: of this rank's batch, without a
  // backward pass into the grads. The backward pass of the same batch at the present parameters
  // then adds to it, and what travels is the difference. THROWS Error (misuse): there is no
  // snapshot.
  void subtract_at_snapshot(const LossClosure& loss);

  // w -= lr (grad + full gradient).
  torch::Tensor step(LossClosure closure = nullptr) override;

  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;
};

}  // namespace paceline::optimizers
