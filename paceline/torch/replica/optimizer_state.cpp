#include "paceline/torch/replica/optimizer_state.h"

#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <typeinfo>

#include "paceline/torch/optim/optim.h"

namespace paceline::parallel {
namespace {

namespace optim = torch::optim;

OptimizerSlots slots_in(optim::SGDParamState& state) {
  return {.tensors = {{"momentum_buffer", &state.momentum_buffer()}}};
}
template <typename AdamLike>
OptimizerSlots slots_of_adam(AdamLike& state) {
  return {.tensors = {{"exp_avg", &state.exp_avg()},
                      {"exp_avg_sq", &state.exp_avg_sq()},
                      {"max_exp_avg_sq", &state.max_exp_avg_sq()}},
          .step = &state.step()};
}
OptimizerSlots slots_in(optim::AdamParamState& state) {
  return slots_of_adam(state);
}
OptimizerSlots slots_in(optim::AdamWParamState& state) {
  return slots_of_adam(state);
}
OptimizerSlots slots_in(optim::RMSpropParamState& state) {
  return {.tensors = {{"square_avg", &state.square_avg()},
                      {"momentum_buffer", &state.momentum_buffer()},
                      {"grad_avg", &state.grad_avg()}},
          .step = &state.step()};
}
OptimizerSlots slots_in(optim::AdagradParamState& state) {
  return {.tensors = {{"sum", &state.sum()}}, .step = &state.step()};
}
OptimizerSlots slots_in(optimizers::LARSParamState& state) {
  return {.tensors = {{"momentum_buffer", &state.momentum_buffer()}}};
}
OptimizerSlots slots_in(optimizers::LAMBParamState& state) {
  return {.tensors = {{"exp_avg", &state.exp_avg()}, {"exp_avg_sq", &state.exp_avg_sq()}},
          .step = &state.step()};
}
OptimizerSlots slots_in(optimizers::SVRGParamState& state) {
  return {.tensors = {{"snapshot", &state.snapshot()}, {"full_gradient", &state.full_gradient()}}};
}

template <typename Optimizer, typename State>
OptimizerStateKind kind(std::string_view name) {
  return {
      .name = name,
      .is = [](const optim::Optimizer& one) { return typeid(one) == typeid(Optimizer); },
      .make_state = []() -> std::unique_ptr<optim::OptimizerParamState> {
        return std::make_unique<State>();
      },
      .slots =
          [](optim::OptimizerParamState& state) { return slots_in(static_cast<State&>(state)); }};
}

}  // namespace

std::span<const OptimizerStateKind> optimizer_state_kinds() {
  static const std::array<OptimizerStateKind, 8> all = {
      kind<optim::SGD, optim::SGDParamState>("SGD"),
      kind<optim::Adam, optim::AdamParamState>("Adam"),
      kind<optim::AdamW, optim::AdamWParamState>("AdamW"),
      kind<optim::RMSprop, optim::RMSpropParamState>("RMSprop"),
      kind<optim::Adagrad, optim::AdagradParamState>("Adagrad"),
      kind<optimizers::LARS, optimizers::LARSParamState>("LARS"),
      kind<optimizers::LAMB, optimizers::LAMBParamState>("LAMB"),
      kind<optimizers::SVRG, optimizers::SVRGParamState>("SVRG")};
  return all;
}

const OptimizerStateKind* state_kind_of(const optim::Optimizer& optimizer) {
  const auto all = optimizer_state_kinds();
  const auto found =
      std::ranges::find_if(all, [&](const OptimizerStateKind& one) { return one.is(optimizer); });
  return found == all.end() ? nullptr : &*found;
}

std::string known_optimizers() {
  std::string text;
  for (const OptimizerStateKind& one : optimizer_state_kinds())
    text += (text.empty() ? "" : ", ") + std::string(one.name);
  return text;
}

}  // namespace paceline::parallel
