// The result of `paceline bench schedule`: for each model and method the time of a step, beside the
// forecast and the bound that no schedule can beat; and a drawing of each method's last step.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "paceline/core/base/trace_log.h"
#include "paceline/core/schedule/order/gradient_plan.h"

namespace paceline::cli {

inline constexpr double kMilli = 1e3;  // milliseconds in a second

struct ScheduleRow {
  std::string model, method, plan;  // plan: in words
  std::string path = "collective";  // server: over the job's servers; both: chosen by group
  std::string transport, codec = "none", placement = "none";  // of servers
  int ranks = 1, servers = 0, divide = 1;
  bool computes = false;                           // kernels compute; else a wait replaces them
  double rho = 0;                                  // 0: the model's own computation
  int batch = 1;                                   // samples of a rank
  std::vector<double> seconds = {}, exposed = {};  // of each step
  double compute = 0, transfer = 0;                // seconds of a step that each alone takes
  double forecast = 0;                             // seconds of a step
  double bound = 0;                                // the bound for such plans: D, or with a barrier
  std::int64_t errors = 0;

  double step() const;  // the median
  double samples_per_second() const;
  // The share that was hidden of the communication that could be hidden.
  double hidden() const;
  double forecast_error() const;  // relative to the measurement
};

std::string schedule_head();
// `first`: the model's first method, to which speed-ups are taken.
std::string schedule_line(const ScheduleRow& row, const ScheduleRow& first);
std::string schedule_json(const std::vector<ScheduleRow>& rows);
// "forecast: 3.1 % wrong in the mean, 7.0 % at worst (merged of BERT-Base)"
std::string schedule_verdict(const std::vector<ScheduleRow>& rows);

// The place of one method's last step in the trace of a rank.
struct ScheduleWindow {
  std::int64_t run_ns = 0;                 // the method began
  std::int64_t begin_ns = 0, end_ns = 0;   // its last step
  std::vector<std::string> messages = {};  // the content of each, in the plan's order
};

// "message 2 of 3: gradients 4 to 9 (fc.weight to conv1.weight), 1.20 MB"; gradients from 1, in the
// order of the backward pass.
std::vector<std::string> message_titles(const schedule::Model& model,
                                        const schedule::MessagePlan& plan);

// `windows`: of `rows`, one each. `spans`: those of rank 0.
std::string schedule_timeline(const std::vector<ScheduleRow>& rows,
                              const std::vector<ScheduleWindow>& windows,
                              std::span<const TraceSpan> spans);

}  // namespace paceline::cli
