#include "paceline/torch/optimizers/lars.h"

#include <torch/torch.h>

#include "paceline/torch/optimizers/stepping.h"

namespace paceline::optimizers {

void LARSOptions::serialize(torch::serialize::OutputArchive& archive) const {
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(lr);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(momentum);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(weight_decay);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(trust_coefficient);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(eps);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(adapt_vectors);
}

void LARSOptions::serialize(torch::serialize::InputArchive& archive) {
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, lr);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, momentum);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, weight_decay);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, trust_coefficient);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, eps);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(bool, adapt_vectors);
}

void LARSParamState::serialize(torch::serialize::OutputArchive& archive) const {
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(momentum_buffer);
}
void LARSParamState::serialize(torch::serialize::InputArchive& archive) {
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(torch::Tensor, momentum_buffer);
}

LARS::LARS(const std::vector<torch::optim::OptimizerParamGroup>& groups,
           const LARSOptions& defaults, SumOverShards sum)
    : Optimizer(groups, std::make_unique<LARSOptions>(defaults)), sum_(std::move(sum)) {
  TORCH_CHECK(defaults.lr() >= 0, "Invalid learning rate: ", defaults.lr());
  TORCH_CHECK(defaults.momentum() >= 0, "Invalid momentum value: ", defaults.momentum());
  TORCH_CHECK(defaults.weight_decay() >= 0,
              "Invalid weight_decay value: ", defaults.weight_decay());
  TORCH_CHECK(defaults.trust_coefficient() > 0,
              "Invalid trust_coefficient value: ", defaults.trust_coefficient());
}

torch::Tensor LARS::step(LossClosure closure) {
  const at::NoGradGuard no_grad;
  const at::Tensor loss = loss_of_closure(closure);
  const auto all = steppable<LARSOptions>(param_groups_);
  std::vector<at::Tensor> measured;
  for (const auto& one : all)
    if (one.is_adapted) measured.insert(measured.end(), {one.parameter, one.gradient});
  const std::vector<double> norms = whole_norms(measured, sum_);
  auto norm = norms.begin();
  for (const auto& [parameter, gradient, options, is_adapted] : all) {
    double ratio = 1, decay = 0;
    if (is_adapted) {
      const double of_parameter = *norm++, of_gradient = *norm++;
      decay = options->weight_decay();
      if (of_parameter > 0 && of_gradient > 0)
        ratio = options->trust_coefficient() * of_parameter /
                (of_gradient + decay * of_parameter + options->eps());
    }
    at::Tensor update = decay == 0 ? gradient.clone() : gradient.add(parameter, decay);
    update.mul_(options->lr() * ratio);
    at::Tensor& velocity = state_of<LARSParamState>(*this, parameter).momentum_buffer();
    if (velocity.defined()) velocity.mul_(options->momentum()).add_(update);
    else velocity = update;
    parameter.sub_(velocity);
  }
  return loss;
}

void LARS::save(torch::serialize::OutputArchive& archive) const {
  torch::optim::serialize<LARSParamState, LARSOptions>(archive, *this);
}
void LARS::load(torch::serialize::InputArchive& archive) {
  torch::optim::serialize<LARSParamState, LARSOptions>(archive, *this);
}

}  // namespace paceline::optimizers
