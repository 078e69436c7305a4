// The state of data parallel training that goes from step to step beside the model: in a checkpoint
// it makes the next step that of a run which was never interrupted. Each rank has its own.
#pragma once

#include <torch/serialize/archive.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "paceline/torch/gradient/gradient_schedule.h"

namespace paceline::parallel {

struct TrainingState {
  // The options by which the schedule was decided; it is taken up again only under the same.
  std::string options;
  int ranks = 1;
  std::optional<ScheduleDecision> decision = {};
  std::vector<std::byte> compression = {};  // compress/state/saved_state.h; empty: nothing is kept
};

void write(torch::serialize::OutputArchive& archive, const TrainingState& state);
// THROWS Error (misuse): the archive has none.
TrainingState read_training_state(torch::serialize::InputArchive& archive);

}  // namespace paceline::parallel
