// The result of `paceline bench pipeline`: a measured step beside the simulated one.
#pragma once

#include <string>
#include <vector>

#include "paceline/app/cli/pipeline/pipeline_report.h"

namespace paceline::cli {

struct PipelineMeasurement {
  std::vector<pipeline::TimedOrder> steps;  // at least one, in their order
  pipeline::TimedOrder simulated;
  std::string transport;
  int errors = 0;  // messages that arrived with other values

  const pipeline::TimedOrder& median() const;  // the step whose makespan is in the middle
};

std::string pipeline_bench_text(const PipelineCase& one, const PipelineMeasurement& measured);
// pipeline_json of the median step, with "transport", "errors", "steps_ms": [of each step], and
// "simulated": {"makespan_ms", "idle_share"}.
std::string pipeline_bench_json(const PipelineCase& one, const PipelineMeasurement& measured);

}  // namespace paceline::cli
