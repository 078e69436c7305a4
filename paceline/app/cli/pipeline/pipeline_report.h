// Reports the time that a pipeline's order took, beside its closed forms, and draws it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "paceline/app/cli/pipeline/pipeline_options.h"

namespace paceline::cli {

// Closed forms hold for ranks that take equal times and messages that take none.
struct PipelineForms {
  double makespan = 0, idle_share = 0;  // seconds; of the ranks' time. 0: the times are not equal
  std::vector<int> live;                // by rank
};
PipelineForms forms_of(const PipelineCase& one);

// "1f1b, 4 ranks, 8 micro-batches: 330.0 ms, idle 27.3 %"
std::string pipeline_title(const PipelineCase& one, const pipeline::TimedOrder& run);

// A table of what was simulated beside the closed forms.
std::string pipeline_table(const PipelineCase& one, const pipeline::TimedOrder& run);

// One object: {"schedule", "stages", "micro_batches", "makespan_ms", "idle_share",
// "live_activations": [of each rank], "closed_form": {the same three}, "ranks": [{"rank",
// "busy_ms", "live_activations", "operations": [{"kind", "stage", "micro_batch", "begin_ms",
// "end_ms"}]}]}.
std::string pipeline_json(const PipelineCase& one, const pipeline::TimedOrder& run);

// Draws when each rank computes what, a lane for each rank and time to the right: an SVG in which
// each operation has its micro-batch's number. `made_by`: the command that draws it again, kept in
// the file.
std::string pipeline_svg(const PipelineCase& one, const pipeline::TimedOrder& run,
                         const std::string& made_by);

// The same in letters, at most `columns` wide: F, B and W with the micro-batch's number, as wide as
// they take; points where the rank waits. Empty when there is no room for one letter an operation.
std::string pipeline_picture(const pipeline::TimedOrder& run, std::size_t columns);

}  // namespace paceline::cli
