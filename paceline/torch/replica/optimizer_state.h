// The state that torch's optimizers, and those of optim/, keep for a parameter, as a table: tensors
// by name, and steps.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::parallel {

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

struct OptimizerStateKind {
  std::string_view name;  // "AdamW"
  bool (*is)(const torch::optim::Optimizer&);
  std::unique_ptr<torch::optim::OptimizerParamState> (*make_state)();
  OptimizerSlots (*slots)(torch::optim::OptimizerParamState&);
};

std::span<const OptimizerStateKind> optimizer_state_kinds();
// nullptr: one of another type, also one derived from these.
const OptimizerStateKind* state_kind_of(const torch::optim::Optimizer& optimizer);
std::string known_optimizers();  // "SGD, Adam, ..."; for texts

}  // namespace paceline::parallel
