#include "paceline/app/cli/bench/pipeline_bench_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "paceline/app/cli/bench/schedule_report.h"

namespace paceline::cli {

const pipeline::TimedOrder& PipelineMeasurement::median() const {
  std::vector<const pipeline::TimedOrder*> sorted;
  for (const pipeline::TimedOrder& step : steps) sorted.push_back(&step);
  std::ranges::sort(sorted, {}, [](const pipeline::TimedOrder* step) { return step->makespan; });
  return *sorted[(sorted.size() - 1) / 2];
}

std::string pipeline_bench_text(const PipelineCase& one, const PipelineMeasurement& measured) {
  const pipeline::TimedOrder& step = measured.median();
  const pipeline::TimedOrder& simulated = measured.simulated;
  std::string text = fmt::format("{:<18}{:>14}{:>14}{:>12}\n", "", "measured", "simulated", "more");
  text += fmt::format("{:<18}{:>14}{:>14}{:>12}\n", "makespan",
                      fmt::format("{:.2f} ms", step.makespan * kMilli),
                      fmt::format("{:.2f} ms", simulated.makespan * kMilli),
                      fmt::format("{:+.1f} %", (step.makespan / simulated.makespan - 1) * 100));
  text +=
      fmt::format("{:<18}{:>14}{:>14}\n", "idle", fmt::format("{:.2f} %", step.idle_share * 100),
                  fmt::format("{:.2f} %", simulated.idle_share * 100));
  text += fmt::format("live activations: {}\n", fmt::join(pipeline::peak_live(one.order), " "));
  std::vector<std::string> steps;
  for (const pipeline::TimedOrder& each : measured.steps)
    steps.push_back(fmt::format("{:.1f}", each.makespan * kMilli));
  return text + fmt::format("steps: {} ms, {}\n", fmt::join(steps, ", "), measured.transport);
}

std::string pipeline_bench_json(const PipelineCase& one, const PipelineMeasurement& measured) {
  auto json = nlohmann::ordered_json::parse(pipeline_json(one, measured.median()));
  json["transport"] = measured.transport;
  json["errors"] = measured.errors;
  for (const pipeline::TimedOrder& step : measured.steps)
    json["steps_ms"].push_back(step.makespan * kMilli);
  json["simulated"] = {{"makespan_ms", measured.simulated.makespan * kMilli},
                       {"idle_share", measured.simulated.idle_share}};
  return json.dump(1) + "\n";
}

}  // namespace paceline::cli
