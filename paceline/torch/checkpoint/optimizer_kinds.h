// torch's optimizers as a table: the options of their groups and the state of a parameter, by name.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "paceline/core/base/json_reader.h"

namespace paceline::checkpointing {

// A tensor in the state of a parameter; undefined: the optimizer has not made it.
struct Slot {
  std::string_view name;  // "exp_avg"
  at::Tensor* tensor = nullptr;
};

// The state of one parameter, seen through its slots.
struct Slots {
  std::vector<Slot> tensors;
  std::int64_t* step = nullptr;  // nullptr: the optimizer does not count
};

struct OptimizerKind {
  std::string_view name;  // "AdamW"
  bool (*is)(const torch::optim::Optimizer&);
  JsonReader::Json (*options)(const torch::optim::OptimizerOptions&);
  // False: the JSON does not fit, and the options are unspecified.
  bool (*set_options)(torch::optim::OptimizerOptions&, const JsonReader::Json&);
  std::unique_ptr<torch::optim::OptimizerParamState> (*make_state)();
  Slots (*slots)(torch::optim::OptimizerParamState&);
};

// nullptr: one of another type, also one derived from these.
const OptimizerKind* kind_of(const torch::optim::Optimizer& optimizer);
// nullptr: there is none of this name.
const OptimizerKind* kind_of_name(std::string_view name);
std::string all_kinds();  // "SGD, Adam, ..."; for texts

}  // namespace paceline::checkpointing
