// torch's optimizers as a table: the options of their groups beside the state of a parameter
// (replica/optimizer_state.h).
#pragma once

#include <torch/optim/optimizer.h>

#include <string_view>

#include "paceline/core/base/json_reader.h"
#include "paceline/torch/replica/replica.h"

namespace paceline::checkpointing {

struct OptimizerKind {
  parallel::OptimizerStateKind state;
  JsonReader::Json (*options)(const torch::optim::OptimizerOptions&);
  // False: the JSON does not fit, and the options are unspecified.
  bool (*set_options)(torch::optim::OptimizerOptions&, const JsonReader::Json&);

  std::string_view name() const { return state.name; }
};

// nullptr: one of another type, also one derived from these.
const OptimizerKind* kind_of(const torch::optim::Optimizer& optimizer);

}  // namespace paceline::checkpointing
