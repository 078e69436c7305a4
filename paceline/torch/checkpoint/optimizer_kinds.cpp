#include "paceline/torch/checkpoint/optimizer_kinds.h"

#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <typeinfo>

#include "paceline/torch/checkpoint/checkpoint_fields.h"

namespace paceline::checkpointing {
namespace {

namespace optim = torch::optim;
using Json = JsonReader::Json;

// --- which options and slots there are, told once for both ways ----------------------------------

template <typename Visit>
void visit_options(optim::SGDOptions& o, Visit&& visit) {
  visit("lr", o.lr());
  visit("momentum", o.momentum());
  visit("dampening", o.dampening());
  visit("weight_decay", o.weight_decay());
  visit("nesterov", o.nesterov());
}

template <typename AdamLike, typename Visit>
void visit_adam(AdamLike& o, Visit&& visit) {
  visit("lr", o.lr());
  visit("beta1", std::get<0>(o.betas()));
  visit("beta2", std::get<1>(o.betas()));
  visit("eps", o.eps());
  visit("weight_decay", o.weight_decay());
  visit("amsgrad", o.amsgrad());
}
template <typename Visit>
void visit_options(optim::AdamOptions& o, Visit&& visit) {
  visit_adam(o, visit);
}
template <typename Visit>
void visit_options(optim::AdamWOptions& o, Visit&& visit) {
  visit_adam(o, visit);
}

template <typename Visit>
void visit_options(optim::RMSpropOptions& o, Visit&& visit) {
  visit("lr", o.lr());
  visit("alpha", o.alpha());
  visit("eps", o.eps());
  visit("weight_decay", o.weight_decay());
  visit("momentum", o.momentum());
  visit("centered", o.centered());
}

template <typename Visit>
void visit_options(optim::AdagradOptions& o, Visit&& visit) {
  visit("lr", o.lr());
  visit("lr_decay", o.lr_decay());
  visit("weight_decay", o.weight_decay());
  visit("initial_accumulator_value", o.initial_accumulator_value());
  visit("eps", o.eps());
}

Slots slots_in(optim::SGDParamState& state) {
  return {.tensors = {{"momentum_buffer", &state.momentum_buffer()}}};
}
template <typename AdamLike>
Slots slots_of_adam(AdamLike& state) {
  return {.tensors = {{"exp_avg", &state.exp_avg()},
                      {"exp_avg_sq", &state.exp_avg_sq()},
                      {"max_exp_avg_sq", &state.max_exp_avg_sq()}},
          .step = &state.step()};
}
Slots slots_in(optim::AdamParamState& state) {
  return slots_of_adam(state);
}
Slots slots_in(optim::AdamWParamState& state) {
  return slots_of_adam(state);
}
Slots slots_in(optim::RMSpropParamState& state) {
  return {.tensors = {{"square_avg", &state.square_avg()},
                      {"momentum_buffer", &state.momentum_buffer()},
                      {"grad_avg", &state.grad_avg()}},
          .step = &state.step()};
}
Slots slots_in(optim::AdagradParamState& state) {
  return {.tensors = {{"sum", &state.sum()}}, .step = &state.step()};
}

// --- the table -----------------------------------------------------------------------------------

template <typename Optimizer, typename Options, typename State>
OptimizerKind kind(std::string_view name) {
  return {
      .name = name,
      .is = [](const optim::Optimizer& one) { return typeid(one) == typeid(Optimizer); },
      .options =
          [](const optim::OptimizerOptions& options) {
            Options copy = static_cast<const Options&>(options);
            Json json = Json::object();
            visit_options(copy,
                          [&](const char* key, auto& value) { json[key] = json_of_field(value); });
            return json;
          },
      .set_options =
          [](optim::OptimizerOptions& options, const Json& json) {
            bool fits = json.is_object();
            std::size_t known = 0;
            visit_options(static_cast<Options&>(options), [&](const char* key, auto& value) {
              ++known;
              fits = fits && json.contains(key) && read_field(json.at(key), value);
            });
            return fits && json.size() == known;
          },
      .make_state = []() -> std::unique_ptr<optim::OptimizerParamState> {
        return std::make_unique<State>();
      },
      .slots =
          [](optim::OptimizerParamState& state) { return slots_in(static_cast<State&>(state)); }};
}

const std::array<OptimizerKind, 5>& kinds() {
  static const std::array<OptimizerKind, 5> all = {
      kind<optim::SGD, optim::SGDOptions, optim::SGDParamState>("SGD"),
      kind<optim::Adam, optim::AdamOptions, optim::AdamParamState>("Adam"),
      kind<optim::AdamW, optim::AdamWOptions, optim::AdamWParamState>("AdamW"),
      kind<optim::RMSprop, optim::RMSpropOptions, optim::RMSpropParamState>("RMSprop"),
      kind<optim::Adagrad, optim::AdagradOptions, optim::AdagradParamState>("Adagrad")};
  return all;
}

}  // namespace

const OptimizerKind* kind_of(const optim::Optimizer& optimizer) {
  const auto found =
      std::ranges::find_if(kinds(), [&](const OptimizerKind& one) { return one.is(optimizer); });
  return found == kinds().end() ? nullptr : &*found;
}

const OptimizerKind* kind_of_name(std::string_view name) {
  const auto found = std::ranges::find(kinds(), name, &OptimizerKind::name);
  return found == kinds().end() ? nullptr : &*found;
}

std::string all_kinds() {
  std::string text;
  for (const OptimizerKind& one : kinds())
    text += (text.empty() ? "" : ", ") + std::string(one.name);
  return text;
}

}  // namespace paceline::checkpointing
