// Draws when each part of a step ran in `paceline bench schedule`: for each method its last step,
// on rank 0.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "paceline/app/cli/bench/schedule_report.h"
#include "paceline/core/base/trace_log.h"
#include "paceline/core/schedule/order/gradient_plan.h"

namespace paceline::cli {

// The place of one method's last step in the trace of a rank.
struct ScheduleWindow {
  std::int64_t run_ns = 0;                 // the method began
  std::int64_t begin_ns = 0, end_ns = 0;   // its last step
  std::vector<std::string> messages = {};  // the content of each, in the plan's order
};

// "message 2 of 3: gradients 4 to 9 (fc.weight to conv1.weight), 1.20 MB"; gradients from 1, in the
// order of the backward pass.
std::vector<std::string> message_titles(const schedule::Model& model, const schedule::Plan& plan);

// `windows`: of `rows`, one each. `spans`: those of rank 0.
std::string schedule_timeline(const std::vector<ScheduleRow>& rows,
                              const std::vector<ScheduleWindow>& windows,
                              std::span<const TraceSpan> spans);

}  // namespace paceline::cli
