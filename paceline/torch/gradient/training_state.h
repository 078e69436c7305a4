// The state of gradient averaging that goes from step to step, as a value and as that of a
// checkpoint.
#pragma once

#include <optional>
#include <string>

#include "paceline/core/base/json_reader.h"
#include "paceline/torch/gradient/gradient_schedule.h"

namespace paceline::parallel {

struct TrainingState {
  // The options by which the schedule was decided; it is taken up again only under the same.
  std::string options;
  std::optional<ScheduleDecision> decision = {};
};

JsonReader::Json json_of(const TrainingState& state);
// THROWS Error (io): it is not what json_of() makes.
TrainingState training_state_of(const JsonReader::Json& json);

}  // namespace paceline::parallel
