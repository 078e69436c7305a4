// The optimizers that Paceline knows, a row for each: torch's, and those of this room. Rooms ask
// this table, and never for a class: to save an optimizer, to average what ranks keep, to have
// servers step in its place, to refuse one where ranks hold parts of a parameter.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace paceline::optimizers {

// A tensor in the state of a parameter; undefined: the optimizer has not made it.
struct OptimizerSlot {
  std::string_view name;  // "exp_avg"
  at::Tensor* tensor = nullptr;
};

// The state of one parameter, seen through its slots.
struct OptimizerSlots {
  std::vector<OptimizerSlot> tensors;
  std::int64_t* step = nullptr;  // nullptr: the optimizer does not count
};

// An option of a group of parameters.
struct OptimizerOption {
  std::string_view name;  // "lr"
  std::variant<double*, bool*> value;

  bool is_switch() const { return std::holds_alternative<bool*>(value); }
  double number() const {
    return is_switch() ? *std::get<bool*>(value) : *std::get<double*>(value);
  }
};

// To step one element an optimizer looks at its own numbers, at its whole tensor, or at the model.
enum class Reach : std::uint8_t { element, tensor, model };

struct KnownOptimizer {
  std::string_view name;  // "AdamW"
  Reach reach = Reach::element;
  bool (*is)(const torch::optim::Optimizer&) = nullptr;
  // The state of a parameter and the options of a group; nullptr: its state is not told here.
  std::unique_ptr<torch::optim::OptimizerParamState> (*make_state)() = nullptr;
  OptimizerSlots (*slots)(torch::optim::OptimizerParamState&) = nullptr;
  std::vector<OptimizerOption> (*options)(torch::optim::OptimizerOptions&) = nullptr;
  // The rule by which servers step as it does (core/server/rules); empty: they have none. The rule
  // has a setting for each option but `unruled`, which must be 0 or off.
  std::string_view server_rule = {}, unruled = {};
};

std::span<const KnownOptimizer> known_optimizers();
// nullptr: one of another type.
const KnownOptimizer* known(const torch::optim::Optimizer& optimizer);

// The same, but nullptr also if its state is not told here.
const KnownOptimizer* with_known_state(const torch::optim::Optimizer& optimizer);
std::string names_with_known_state();  // "SGD, Adam, ..."; for texts

}  // namespace paceline::optimizers
