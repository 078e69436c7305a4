// The options that `paceline simulate pipeline` and `paceline bench pipeline` share.
#pragma once

#include <string>
#include <vector>

#include "paceline/core/pipeline/pipeline.h"

namespace CLI {
class App;
}

namespace paceline::cli {

struct PipelineOptions {
  std::string schedule = "1f1b", micro_batches = "8", batches, durations = "10:10:10",
              message = "256KiB";
};
void add_pipeline_options(CLI::App& app, PipelineOptions& given);

// An order and the times of its stages.
struct PipelineCase {
  pipeline::ScheduleChoice choice;
  int ranks = 1, micro_batches = 1, batches = 1;
  pipeline::Order order;
  std::vector<pipeline::StageSeconds> durations;  // one for each rank, or one for all
  double message_bytes = 0;                       // of a micro-batch at each cut

  bool is_equal() const { return durations.size() == 1; }  // all ranks take the same times
  int micro_batches_in_all() const { return order.micro_batches; }
  pipeline::PipelineCosts costs() const;  // without latency and bandwidth
};

// THROWS Error (misuse) that names the option, what is wrong and what is right.
PipelineCase checked_case(const PipelineOptions& given, int ranks);

// "10:10:10" or "10:10:10,20:20:20": milliseconds of forward, backward and weight gradient; the
// first two are above 0. THROWS Error (misuse).
std::vector<pipeline::StageSeconds> parse_durations(std::string_view option,
                                                    const std::string& text);

}  // namespace paceline::cli
