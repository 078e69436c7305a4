// The optimizers of this room share these: the walk over parameters with gradients, their states,
// the closure, another place to look at, the rate.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace paceline::optimizers {

// A parameter that has a gradient, and the options of its group.
template <typename Options>
struct Steppable {
  at::Tensor parameter, gradient;
  const Options* options = nullptr;
  bool is_adapted = false;  // measured by its norm, and decayed
};

// In the order of the groups, which is the same on all ranks.
template <typename Options>
std::vector<Steppable<Options>> steppable(std::vector<torch::optim::OptimizerParamGroup>& groups) {
  std::vector<Steppable<Options>> all;
  for (torch::optim::OptimizerParamGroup& group : groups) {
    const auto& options = static_cast<const Options&>(group.options());
    for (const at::Tensor& parameter : group.params()) {
      if (!parameter.grad().defined()) continue;
      all.push_back(
          {parameter, parameter.grad(), &options, options.adapt_vectors() || parameter.dim() > 1});
    }
  }
  return all;
}

// The state of a parameter, made if it has none.
template <typename State>
State& state_of(torch::optim::Optimizer& optimizer, const at::Tensor& parameter) {
  auto& state = optimizer.state()[parameter.unsafeGetTensorImpl()];
  if (state == nullptr) state = std::make_unique<State>();
  return static_cast<State&>(*state);
}

// Runs the closure, if there is one, with autograd on: its loss.
inline at::Tensor loss_of_closure(const torch::optim::Optimizer::LossClosure& closure) {
  if (!closure) return {};
  const at::AutoGradMode with_gradients(true);
  return closure();
}

// While it lives, parameters have other values; its end gives them theirs back.
class ScopedValues {
 public:
  // REQUIRES: values of the parameters' shapes.
  ScopedValues(std::vector<at::Tensor> parameters, const std::vector<at::Tensor>& values)
      : parameters_(std::move(parameters)) {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      own_values_.push_back(parameters_[i].detach().clone());
      parameters_[i].copy_(values[i]);
    }
  }
  ~ScopedValues() {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].copy_(own_values_[i]);
  }
  ScopedValues(const ScopedValues&) = delete;
  ScopedValues& operator=(const ScopedValues&) = delete;

 private:
  std::vector<at::Tensor> parameters_, own_values_;
};

// The rate of a step, counted from 0: lr steps / (steps + step), or lr where `steps` is 0.
inline double decayed(double lr, double steps, std::int64_t step) {
  return steps > 0 ? lr * steps / (steps + static_cast<double>(step)) : lr;
}

}  // namespace paceline::optimizers
