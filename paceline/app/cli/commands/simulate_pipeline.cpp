// `paceline simulate pipeline`: a pipeline's order in virtual time.
#include <fmt/format.h>

#include <memory>

#include "paceline/app/cli/pipeline/pipeline_options.h"
#include "paceline/app/cli/pipeline/pipeline_report.h"
#include "paceline/app/cli/shared/arguments.h"
#include "paceline/app/cli/shared/quantities.h"
#include "paceline/app/cli/shared/subcommand.h"
#include "paceline/app/cli/shared/text.h"

namespace paceline::cli {
namespace {

constexpr const char* kPipelineAbout =
    "Simulates a pipeline of stages: how long a batch takes, how long ranks wait, and how many "
    "activations\n"
    "they hold, beside the closed forms of the schedule.";

constexpr const char* kPipelineMore = R"(Examples:
  paceline simulate pipeline --schedule 1f1b --stages 4 --micro-batches 8
  paceline simulate pipeline --schedule interleaved:chunks=2 --stages 4 --micro-batches 8 --svg pipeline.svg
  paceline simulate pipeline --schedule pipedream --stages 4 --micro-batches 100
  paceline simulate pipeline --stages 2 --durations 12:14:10,9:11:8 --latency 0.05ms --bandwidth 1gbit --message 1MiB

Schedules (docs/pipelines/README.md): sequential (one micro-batch in flight), gpipe (all forwards, then all backwards),
1f1b (one forward, one backward), interleaved:chunks=V (V stages on each rank), zero_bubble (weight gradients fill the
gaps), pipedream and pipedream_2bw (no flush between batches; --micro-batches of pipedream counts mini-batches).
A message between two ranks holds their way for its bytes over the bandwidth, and arrives after the latency.

Exit codes: 0 done; 2 wrong usage
)";

struct SimulatePipelineOptions {
  SimulatePipelineOptions() {
    const auto add = adder(app, kPipelineMore);
    add("--stages", stages, "N",
        "ranks of the pipeline, each with one stage, or with its chunks (4)");
    add_pipeline_options(app, common);
    add("--latency", latency, "TIME", "of each message, as 0.05ms (0)");
    add("--bandwidth", bandwidth, "RATE",
        "between two ranks, as 1gbit or 125MiB a second (no limit)");
    add("--svg", svg, "FILE", "draw the ranks' work over time; - is stdout");
    add("--json", json, "FILE", "write the figures as one object; - is stdout, without the table");
  }
  CLI::App app{kPipelineAbout, "paceline simulate pipeline"};
  PipelineOptions common;
  std::string stages = "4", latency, bandwidth, svg, json;
};

// The words that give the same picture again, without those that have their default.
std::string command_of(const SimulatePipelineOptions& given) {
  const SimulatePipelineOptions standard;
  std::string command =
      fmt::format("paceline simulate pipeline --schedule {} --stages {} --micro-batches {}",
                  given.common.schedule, given.stages, given.common.micro_batches);
  const auto add = [&](const char* name, const std::string& value, const std::string& unless) {
    if (value != unless) command += fmt::format(" {} {}", name, value);
  };
  add("--batches", given.common.batches, standard.common.batches);
  add("--durations", given.common.durations, standard.common.durations);
  add("--message", given.common.message, standard.common.message);
  add("--latency", given.latency, "");
  add("--bandwidth", given.bandwidth, "");
  return command + " --svg";
}

int simulate_pipeline_main(const std::vector<std::string>& arguments) {
  constexpr int kMostStages = 1024;
  constexpr std::size_t kColumns = 120;
  SimulatePipelineOptions given;
  if (!parse(given.app, arguments)) return 0;
  const PipelineCase one =
      checked_case(given.common, parse_count("--stages", given.stages, 1, kMostStages));
  pipeline::PipelineCosts costs = one.costs();
  if (!given.latency.empty())
    costs.latency =
        std::chrono::duration<double>(parse_duration("--latency", given.latency)).count();
  if (!given.bandwidth.empty())
    costs.bytes_per_second = parse_bandwidth("--bandwidth", given.bandwidth);
  const pipeline::TimedOrder run = pipeline::simulate_order(one.order, costs).value();
  if (given.json != "-" && given.svg != "-") {
    fmt::print("{}\n", pipeline_title(one, run));
    const std::string picture = pipeline_picture(run, terminal_columns(kColumns));
    if (!picture.empty()) fmt::print("{}\n", picture);
    fmt::print("{}", pipeline_table(one, run));
  }
  if (!given.json.empty()) write_output("--json", given.json, pipeline_json(one, run));
  if (!given.svg.empty())
    write_output("--svg", given.svg, pipeline_svg(one, run, command_of(given)));
  return 0;
}

}  // namespace

namespace catalogue {

Subcommand simulate_pipeline() {
  return {.name = "pipeline",
          .summary = "a pipeline's time, waiting and memory beside the closed forms",
          .main = simulate_pipeline_main,
          .described = described<SimulatePipelineOptions>,
          .group = "simulate"};
}

}  // namespace catalogue
}  // namespace paceline::cli
