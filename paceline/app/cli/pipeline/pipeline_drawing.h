// Draws when each rank of a pipeline computes what: a lane for each rank, time to the right.
#pragma once

#include <cstddef>
#include <string>

#include "paceline/app/cli/pipeline/pipeline_options.h"

namespace paceline::cli {

// An SVG in which each operation has its micro-batch's number. `made_by`: the command that draws it
// again, kept in the file.
std::string pipeline_svg(const PipelineCase& one, const pipeline::TimedOrder& run,
                         const std::string& made_by);

// The same in letters, at most `columns` wide: F, B and W with the micro-batch's number, as wide as
// they take; points where the rank waits. Empty when there is no room for one letter an operation.
std::string pipeline_picture(const pipeline::TimedOrder& run, std::size_t columns);

}  // namespace paceline::cli
