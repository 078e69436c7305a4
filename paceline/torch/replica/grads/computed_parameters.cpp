#include "paceline/torch/replica/grads/computed_parameters.h"

#include <torch/torch.h>

#include "paceline/core/base/base.h"
#include "paceline/torch/replica/grads/gradient_note.h"

namespace paceline::replica {

std::vector<Parameter> masters_of(const ModelParts& parts) {
  std::vector<Parameter> masters = parts.dense;
  std::erase_if(masters, [](const Parameter& each) { return !each.computed.defined(); });
  return masters;
}

void widen_gradient(const Parameter& parameter, double factor) {
  const at::NoGradGuard no_grad;
  at::Tensor& made = parameter.computed.mutable_grad();
  at::Tensor& sum = parameter.tensor.mutable_grad();
  if (!sum.defined()) {
    sum = made.to(parameter.tensor.scalar_type());
    if (factor != 1) sum.mul_(factor);
  } else if (factor == 1) {
    sum.add_(made);
  } else {
    sum.add_(made.to(sum.scalar_type()), factor);
  }
  made.reset();
}

void write_model(const ModelParts& parts) {
  const at::NoGradGuard no_grad;
  for (const Parameter& each : parts.dense)
    if (each.computed.defined()) at::Tensor(each.computed.detach()).copy_(each.tensor);
}

void read_model(const ModelParts& parts) {
  const at::NoGradGuard no_grad;
  for (const Parameter& each : parts.dense) {
    if (!each.computed.defined()) continue;
    const at::Tensor loaded = each.tensor.to(each.computed.scalar_type()).ne(each.computed);
    if (loaded.any().item<bool>())
      each.tensor.detach().copy_(at::where(loaded, each.computed.to(at::kFloat), each.tensor));
  }
}

void show_gradients_of_masters(const ModelParts& parts) {
  for (const Parameter& each : parts.dense)
    if (each.computed.defined() && each.tensor.grad().defined())
      each.computed.mutable_grad() = gradient_elsewhere(each.computed);
}

void hide_gradients_of_masters(const ModelParts& parts) {
  for (const Parameter& each : parts.dense)
    if (each.computed.defined() && is_elsewhere(each.computed.grad()))
      each.computed.mutable_grad().reset();
}

void refuse_model_parameters(const ModelParts& parts, const torch::optim::Optimizer& optimizer) {
  for (const Parameter& each : parts.dense) {
    if (!each.computed.defined()) continue;
    for (const auto& group : optimizer.param_groups()) {
      for (const at::Tensor& one : group.params()) {
        if (!one.is_same(each.computed)) continue;
        throw_misuse(c10::str("the optimizer has the model's parameter '", each.name,
                              "', whose 16 bits would lose small updates: make the optimizer over "
                              "parallel.parameters(), which are float32"));
      }
    }
  }
}

}  // namespace paceline::replica
