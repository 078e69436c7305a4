#include "paceline/torch/optimizers/known_optimizers.h"

#include <torch/torch.h>

#include <algorithm>
#include <typeinfo>
#include <vector>

#include "paceline/torch/optimizers/lamb.h"
#include "paceline/torch/optimizers/lars.h"
#include "paceline/torch/optimizers/online_l_bfgs.h"
#include "paceline/torch/optimizers/quasi_newton.h"
#include "paceline/torch/optimizers/sqn.h"
#include "paceline/torch/optimizers/svrg.h"

namespace paceline::optimizers {
namespace {

namespace optim = torch::optim;
using Options = std::vector<OptimizerOption>;

// --- what each keeps for a parameter, and its options --------------------------------------------

OptimizerSlots slots_in(optim::SGDParamState& state) {
  return {.tensors = {{"momentum_buffer", &state.momentum_buffer()}}};
}
Options options_in(optim::SGDOptions& o) {
  return {{"lr", &o.lr()},
          {"momentum", &o.momentum()},
          {"dampening", &o.dampening()},
          {"weight_decay", &o.weight_decay()},
          {"nesterov", &o.nesterov()}};
}

// Adam and AdamW; LAMB has some of it.
template <typename AdamLike>
OptimizerSlots slots_in(AdamLike& state) {
  OptimizerSlots slots{
      .tensors = {{"exp_avg", &state.exp_avg()}, {"exp_avg_sq", &state.exp_avg_sq()}},
      .step = &state.step()};
  if constexpr (requires { state.max_exp_avg_sq(); })
    slots.tensors.push_back({"max_exp_avg_sq", &state.max_exp_avg_sq()});
  return slots;
}
template <typename AdamLike>
Options options_in(AdamLike& o) {
  Options options = {{"lr", &o.lr()},
                     {"beta1", &std::get<0>(o.betas())},
                     {"beta2", &std::get<1>(o.betas())},
                     {"eps", &o.eps()},
                     {"weight_decay", &o.weight_decay()}};
  if constexpr (requires { o.amsgrad(); }) options.push_back({"amsgrad", &o.amsgrad()});
  else options.push_back({"adapt_vectors", &o.adapt_vectors()});
  return options;
}

OptimizerSlots slots_in(optim::RMSpropParamState& state) {
  return {.tensors = {{"square_avg", &state.square_avg()},
                      {"momentum_buffer", &state.momentum_buffer()},
                      {"grad_avg", &state.grad_avg()}},
          .step = &state.step()};
}
Options options_in(optim::RMSpropOptions& o) {
  return {{"lr", &o.lr()},
          {"alpha", &o.alpha()},
          {"eps", &o.eps()},
          {"weight_decay", &o.weight_decay()},
          {"momentum", &o.momentum()},
          {"centered", &o.centered()}};
}

OptimizerSlots slots_in(optim::AdagradParamState& state) {
  return {.tensors = {{"sum", &state.sum()}}, .step = &state.step()};
}
Options options_in(optim::AdagradOptions& o) {
  return {{"lr", &o.lr()},
          {"lr_decay", &o.lr_decay()},
          {"weight_decay", &o.weight_decay()},
          {"initial_accumulator_value", &o.initial_accumulator_value()},
          {"eps", &o.eps()}};
}

OptimizerSlots slots_in(LARSParamState& state) {
  return {.tensors = {{"momentum_buffer", &state.momentum_buffer()}}};
}
Options options_in(LARSOptions& o) {
  return {{"lr", &o.lr()},
          {"momentum", &o.momentum()},
          {"weight_decay", &o.weight_decay()},
          {"trust_coefficient", &o.trust_coefficient()},
          {"eps", &o.eps()},
          {"adapt_vectors", &o.adapt_vectors()}};
}

OptimizerSlots slots_in(SVRGParamState& state) {
  return {.tensors = {{"snapshot", &state.snapshot()}, {"full_gradient", &state.full_gradient()}}};
}
Options options_in(SVRGOptions& o) {
  return {{"lr", &o.lr()}};
}

// --- the table -----------------------------------------------------------------------------------

// A class derived from the optimizer may keep more, and is another one.
template <typename Optimizer, typename OwnState, typename OwnOptions>
KnownOptimizer row(KnownOptimizer known) {
  known.is = [](const optim::Optimizer& one) { return typeid(one) == typeid(Optimizer); };
  known.make_state = []() -> std::unique_ptr<optim::OptimizerParamState> {
    return std::make_unique<OwnState>();
  };
  known.slots = [](optim::OptimizerParamState& state) {
    return slots_in(static_cast<OwnState&>(state));
  };
  known.options = [](optim::OptimizerOptions& options) {
    return options_in(static_cast<OwnOptions&>(options));
  };
  return known;
}

// Steps of the model as one vector, also those of a class that is derived from the optimizer.
template <typename Optimizer>
KnownOptimizer of_whole_models(std::string_view name) {
  return {.name = name, .reach = Reach::model, .is = [](const optim::Optimizer& one) {
            return dynamic_cast<const Optimizer*>(&one) != nullptr;
          }};
}

std::vector<KnownOptimizer> table() {
  return {
      row<optim::SGD, optim::SGDParamState, optim::SGDOptions>(
          {.name = "SGD", .server_rule = "sgd"}),
      row<optim::Adam, optim::AdamParamState, optim::AdamOptions>(
          {.name = "Adam", .server_rule = "adam", .unruled = "amsgrad"}),
      row<optim::AdamW, optim::AdamWParamState, optim::AdamWOptions>(
          {.name = "AdamW", .server_rule = "adamw", .unruled = "amsgrad"}),
      row<optim::RMSprop, optim::RMSpropParamState, optim::RMSpropOptions>(
          {.name = "RMSprop", .server_rule = "rmsprop"}),
      row<optim::Adagrad, optim::AdagradParamState, optim::AdagradOptions>(
          {.name = "Adagrad", .server_rule = "adagrad", .unruled = "initial_accumulator_value"}),
      row<LARS, LARSParamState, LARSOptions>({.name = "LARS", .reach = Reach::tensor}),
      row<LAMB, LAMBParamState, LAMBOptions>({.name = "LAMB", .reach = Reach::tensor}),
      row<SVRG, SVRGParamState, SVRGOptions>({.name = "SVRG"}),
      of_whole_models<optim::LBFGS>("torch::optim::LBFGS"),
      of_whole_models<QuasiNewton>("QuasiNewton"),
      of_whole_models<OnlineLBFGS>("OnlineLBFGS"),
      of_whole_models<SQN>("SQN")};
}

}  // namespace

std::span<const KnownOptimizer> known_optimizers() {
  static const auto all = table();
  return all;
}

const KnownOptimizer* known(const optim::Optimizer& optimizer) {
  const auto all = known_optimizers();
  const auto found =
      std::ranges::find_if(all, [&](const KnownOptimizer& one) { return one.is(optimizer); });
  return found == all.end() ? nullptr : &*found;
}

const KnownOptimizer* with_known_state(const optim::Optimizer& optimizer) {
  const KnownOptimizer* const found = known(optimizer);
  return found != nullptr && found->make_state != nullptr ? found : nullptr;
}

std::string names_with_known_state() {
  std::string text;
  for (const KnownOptimizer& one : known_optimizers())
    if (one.make_state != nullptr) text += (text.empty() ? "" : ", ") + std::string(one.name);
  return text;
}

}  // namespace paceline::optimizers
