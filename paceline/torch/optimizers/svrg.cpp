#include "paceline/torch/optimizers/svrg.h"

#include <torch/torch.h>

#include "paceline/core/base/base.h"
#include "paceline/torch/optimizers/stepping.h"

namespace paceline::optimizers {

void SVRGOptions::serialize(torch::serialize::OutputArchive& archive) const {
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(lr);
}
void SVRGOptions::serialize(torch::serialize::InputArchive& archive) {
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, lr);
}
void SVRGParamState::serialize(torch::serialize::OutputArchive& archive) const {
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(snapshot);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(full_gradient);
}
void SVRGParamState::serialize(torch::serialize::InputArchive& archive) {
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(torch::Tensor, snapshot);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(torch::Tensor, full_gradient);
}

void SVRG::take_snapshot() {
  const at::NoGradGuard no_grad;
  for (const auto& group : param_groups_) {
    for (const at::Tensor& parameter : group.params()) {
      auto& state = state_of<SVRGParamState>(*this, parameter);
      state.snapshot(parameter.detach().clone());
      const at::Tensor& grad = parameter.grad();
      state.full_gradient(grad.defined() ? grad.to_dense().clone() : at::zeros_like(parameter));
    }
  }
  zero_grad();
}

void SVRG::subtract_at_snapshot(const LossClosure& loss) {
  std::vector<at::Tensor> parameters, snapshots;
  for (const auto& group : param_groups_)
    parameters.insert(parameters.end(), group.params().begin(), group.params().end());
  for (const at::Tensor& parameter : parameters) {
    snapshots.push_back(state_of<SVRGParamState>(*this, parameter).snapshot());
    if (snapshots.back().defined()) continue;
    throw_misuse(
        "SVRG::subtract_at_snapshot(): there is no snapshot; compute the gradient of all samples "
        "and call take_snapshot() first");
  }
  const ScopedValues at_snapshot(parameters, snapshots);
  const at::AutoGradMode with_gradients(true);
  const auto gradients = torch::autograd::grad({loss()}, parameters, {}, /*retain_graph=*/false,
                                               /*create_graph=*/false, /*allow_unused=*/true);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (gradients[i].defined()) parameters[i].mutable_grad() = gradients[i].detach().neg();
}

torch::Tensor SVRG::step(LossClosure closure) {
  const at::NoGradGuard no_grad;
  const at::Tensor loss = loss_of_closure(closure);
  for (auto& group : param_groups_) {
    const double rate = static_cast<const SVRGOptions&>(group.options()).lr();
    for (const at::Tensor& parameter : group.params()) {
      const at::Tensor& full = state_of<SVRGParamState>(*this, parameter).full_gradient();
      if (full.defined()) parameter.sub_(full, rate);
      if (parameter.grad().defined()) parameter.sub_(parameter.grad(), rate);
    }
  }
  return loss;
}

void SVRG::save(torch::serialize::OutputArchive& archive) const {
  torch::optim::serialize<SVRGParamState, SVRGOptions>(archive, *this);
}
void SVRG::load(torch::serialize::InputArchive& archive) {
  torch::optim::serialize<SVRGParamState, SVRGOptions>(archive, *this);
}

}  // namespace paceline::optimizers
