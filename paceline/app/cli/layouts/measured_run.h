// The figures of one run that `paceline bench layouts` finds in the metrics of a program.
#pragma once

#include <optional>
#include <string>

#include "paceline/app/cli/layouts/layout_choice.h"
#include "paceline/core/base/result.h"

namespace paceline::cli {

// A figure that the program does not tell for this layout is empty.
struct MeasuredRun {
  double samples_per_second = 0;
  std::optional<double> traffic_bytes;  // of a step: gradients of a rank, and all that crosses cuts
  std::optional<double> storage_bytes;  // parameters on all ranks together
  std::optional<double> balance;        // the work of the busiest rank over the mean of all
};

// Reads the last line of the file whose "event" is "summary":
//
// | figure                   | meaning                                                        |
// |--------------------------|----------------------------------------------------------------|
// | train_samples_per_second | must be there                                                  |
// | exchanged_bytes, steps   | gradients that a rank sent in so many steps                    |
// | cut_bytes_per_step       | activations and gradients that crossed cuts, of all ranks      |
// | parameter_bytes          | a list: the parameters of each rank                            |
// | stepped_bytes            | the parameters of rank 0, where all ranks have the same layers |
// | busy_microseconds        | a list: the computation of each rank                           |
//
// A failure (io) names the file and what it lacks.
Result<MeasuredRun> read_measured_run(const std::string& file, const LayoutChoice& layout);

}  // namespace paceline::cli
