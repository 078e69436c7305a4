#include "paceline/torch/replica/per_parameter_optimizers.h"

#include <torch/torch.h>

#include "paceline/core/base/base.h"
#include "paceline/core/base/stopwatch.h"
#include "paceline/torch/bridge/bridge.h"

namespace paceline::replica {

namespace {

// Each optimizer steps when the gradient of its parameter is there, and of no other.
void require_optimizer_of(const Parameter& parameter, const torch::optim::Optimizer* made) {
  const auto refuse = [&](const std::string& what) {
    throw_misuse(c10::str("DataParallelOptions::optimizer ", what, " for parameter '",
                          parameter.name,
                          "': it makes one optimizer for each parameter, over {parameter}, the "
                          "tensor that it is handed"));
  };
  if (made == nullptr) refuse("returned null");
  std::vector<at::Tensor> owned;
  for (const auto& group : made->param_groups())
    owned.insert(owned.end(), group.params().begin(), group.params().end());
  if (owned.size() != 1) refuse(c10::str("made an optimizer of ", owned.size(), " tensors"));
  if (!owned[0].is_same(parameter.tensor))
    refuse(c10::str("made an optimizer of another tensor ", describe(owned[0])));
}

}  // namespace

void PerParameterOptimizers::bind(const std::vector<Parameter>& parameters) {
  parameters_.clear();
  for (const Parameter& parameter : parameters) {
    parameters_.push_back(parameter.tensor);
    auto& optimizer = optimizers_[parameter.tensor.unsafeGetTensorImpl()];
    if (optimizer != nullptr) continue;
    auto made = factory_(parameter.tensor, parameter.name);
    require_optimizer_of(parameter, made.get());
    optimizer = std::move(made);
  }
}

void PerParameterOptimizers::update(std::span<const int> parameters) {
  for (const int i : parameters) update_one(parameters_[static_cast<std::size_t>(i)]);
}

void PerParameterOptimizers::update_from(std::size_t first) {
  for (std::size_t i = first; i < parameters_.size(); ++i) update_one(parameters_[i]);
}

double PerParameterOptimizers::update_all() {
  const Stopwatch watch;
  update_from(0);
  return watch.seconds();
}

std::vector<torch::optim::Optimizer*> PerParameterOptimizers::optimizers() const {
  std::vector<torch::optim::Optimizer*> all;
  for (const at::Tensor& parameter : parameters_)
    all.push_back(optimizers_.at(parameter.unsafeGetTensorImpl()).get());
  return all;
}

std::vector<torch::optim::Optimizer*> PerParameterOptimizers::prepared() {
  const auto all = optimizers();
  if (prepare_)
    for (torch::optim::Optimizer* const one : all) prepare_(*one);
  return all;
}

void PerParameterOptimizers::drop_gradients() {
  for (at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
}

void PerParameterOptimizers::update_one(at::Tensor& parameter) {
  at::Tensor& grad = parameter.mutable_grad();
  if (!grad.defined()) return;
  torch::optim::Optimizer& optimizer = *optimizers_.at(parameter.unsafeGetTensorImpl());
  if (prepare_) prepare_(optimizer);
  optimizer.step();
  grad.reset();
}

}  // namespace paceline::replica
