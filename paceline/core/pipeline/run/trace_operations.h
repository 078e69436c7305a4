// A trace shows what a rank of a pipeline computed, as spans.
#pragma once

#include "paceline/core/base/trace_log.h"
#include "paceline/core/pipeline/run/runner.h"

namespace paceline::pipeline {

// Records each operation of the report in the lane of stages: "F micro-batch 3 on stage 1" for a
// forward, B for a backward, W for a weight gradient. Nothing while the log is not enabled.
void trace_operations(const StepReport& report, TraceLog& log);

}  // namespace paceline::pipeline
