// Refuses what does not go with a pipeline without a flush, whose stages step by gradients of older
// weights.
#pragma once

#include "paceline/core/pipeline/pipeline.h"
#include "paceline/torch/pipeline/pipeline_options.h"

namespace paceline::pipeline {

// THROWS Error (misuse), by name, with the remedy: an option that does not go with the schedule.
// REQUIRES: the schedule is not synchronous.
void require_fitting(const ScheduleChoice& choice, const PipelineOptions& options);

}  // namespace paceline::pipeline
