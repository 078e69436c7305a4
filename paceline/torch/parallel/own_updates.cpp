#include "paceline/torch/parallel/own_updates.h"

#include <torch/torch.h>

#include <chrono>

#include "paceline/core/base/base.h"

namespace paceline::parallel {

OwnUpdates::OwnUpdates(const std::vector<Parameter>& parameters, const OptimizerFactory& factory) {
  for (const Parameter& parameter : parameters) {
    parameters_.push_back(parameter.tensor);
    optimizers_.push_back(factory(parameter.tensor));
    if (optimizers_.back() == nullptr)
      throw_misuse(c10::str("DataParallelOptions::optimizer returned null for parameter '",
                            parameter.name, "': it makes an optimizer for each parameter"));
  }
}

void OwnUpdates::update(std::span<const int> parameters) {
  for (const int i : parameters) update_one(static_cast<std::size_t>(i));
}

void OwnUpdates::update_from(std::size_t first) {
  for (std::size_t i = first; i < parameters_.size(); ++i) update_one(i);
}

double OwnUpdates::update_all() {
  const auto begin = Clock::now();
  update_from(0);
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void OwnUpdates::update_one(std::size_t i) {
  at::Tensor& grad = parameters_[i].mutable_grad();
  if (!grad.defined()) return;
  if (prepare_) prepare_(*optimizers_[i]);
  optimizers_[i]->step();
  grad.reset();
}

}  // namespace paceline::parallel
