#include "paceline/torch/optimizers/lamb.h"

#include <torch/torch.h>

#include <cmath>

#include "paceline/torch/optimizers/stepping.h"

namespace paceline::optimizers {

void LAMBOptions::serialize(torch::serialize::OutputArchive& archive) const {
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(lr);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(betas);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(eps);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(weight_decay);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(adapt_vectors);
}

void LAMBOptions::serialize(torch::serialize::InputArchive& archive) {
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, lr);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(betas_t, betas);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, eps);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, weight_decay);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(bool, adapt_vectors);
}

void LAMBParamState::serialize(torch::serialize::OutputArchive& archive) const {
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(step);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(exp_avg);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(exp_avg_sq);
}
void LAMBParamState::serialize(torch::serialize::InputArchive& archive) {
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(std::int64_t, step);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(torch::Tensor, exp_avg);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(torch::Tensor, exp_avg_sq);
}

LAMB::LAMB(const std::vector<torch::optim::OptimizerParamGroup>& groups,
           const LAMBOptions& defaults, SumOverShards sum)
    : Optimizer(groups, std::make_unique<LAMBOptions>(defaults)), sum_(std::move(sum)) {
  const auto [beta1, beta2] = defaults.betas();
  TORCH_CHECK(defaults.lr() >= 0, "Invalid learning rate: ", defaults.lr());
  TORCH_CHECK(defaults.eps() >= 0, "Invalid epsilon value: ", defaults.eps());
  TORCH_CHECK(beta1 >= 0 && beta1 < 1, "Invalid beta parameter at index 0: ", beta1);
  TORCH_CHECK(beta2 >= 0 && beta2 < 1, "Invalid beta parameter at index 1: ", beta2);
  TORCH_CHECK(defaults.weight_decay() >= 0,
              "Invalid weight_decay value: ", defaults.weight_decay());
}

// Adam's step of rate 1, with the decay in it.
at::Tensor LAMB::direction(const at::Tensor& parameter, const at::Tensor& gradient,
                           const LAMBOptions& options, double decay) {
  const auto [beta1, beta2] = options.betas();
  auto& state = state_of<LAMBParamState>(*this, parameter);
  if (!state.exp_avg().defined()) {
    state.exp_avg(at::zeros_like(parameter));
    state.exp_avg_sq(at::zeros_like(parameter));
  }
  const auto step = static_cast<double>(++state.step());
  state.exp_avg().mul_(beta1).add_(gradient, 1 - beta1);
  state.exp_avg_sq().mul_(beta2).addcmul_(gradient, gradient, 1 - beta2);
  const at::Tensor scale =
      state.exp_avg_sq().div(1 - std::pow(beta2, step)).sqrt_().add_(options.eps());
  at::Tensor direction = state.exp_avg().div(1 - std::pow(beta1, step)).div_(scale);
  if (decay != 0) direction.add_(parameter, decay);
  return direction;
}

torch::Tensor LAMB::step(LossClosure closure) {
  const at::NoGradGuard no_grad;
  const at::Tensor loss = loss_of_closure(closure);
  const auto all = steppable<LAMBOptions>(param_groups_);
  std::vector<at::Tensor> directions, measured;
  for (const auto& [parameter, gradient, options, is_adapted] : all) {
    directions.push_back(
        direction(parameter, gradient, *options, is_adapted ? options->weight_decay() : 0));
    if (is_adapted) measured.insert(measured.end(), {parameter, directions.back()});
  }
  const std::vector<double> norms = whole_norms(measured, sum_);
  auto norm = norms.begin();
  for (std::size_t i = 0; i < all.size(); ++i) {
    double ratio = 1;
    if (all[i].is_adapted) {
      const double of_parameter = *norm++, of_direction = *norm++;
      if (of_parameter > 0 && of_direction > 0) ratio = of_parameter / of_direction;
    }
    all[i].parameter.sub_(directions[i], all[i].options->lr() * ratio);
  }
  return loss;
}

void LAMB::save(torch::serialize::OutputArchive& archive) const {
  torch::optim::serialize<LAMBParamState, LAMBOptions>(archive, *this);
}
void LAMB::load(torch::serialize::InputArchive& archive) {
  torch::optim::serialize<LAMBParamState, LAMBOptions>(archive, *this);
}

}  // namespace paceline::optimizers
