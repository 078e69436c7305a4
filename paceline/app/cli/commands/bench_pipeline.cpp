// `paceline bench pipeline`: a pipeline's order on these links, with waiting instead of
// computation.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "paceline/app/cli/bench/bench_ranks.h"
#include "paceline/app/cli/bench/pipeline_bench.h"
#include "paceline/app/cli/pipeline/pipeline_report.h"
#include "paceline/app/cli/shared/arguments.h"
#include "paceline/app/cli/shared/quantities.h"
#include "paceline/app/cli/shared/subcommand.h"
#include "paceline/app/cli/shared/text.h"
#include "paceline/core/base/durable_file.h"

namespace paceline::cli {
namespace {

constexpr const char* kBenchPipelineAbout =
    "Runs a pipeline's schedule on these ranks: messages of full size move between them, and "
    "stages wait for\n"
    "exact times instead of computing, beside the simulator.";

constexpr const char* kBenchPipelineMore = R"(Examples:
  paceline bench pipeline --ranks 4 --schedule 1f1b --micro-batches 8
  paceline bench pipeline --ranks 4 --schedule interleaved:chunks=2 --message 1MiB --transport tcp
  paceline bench pipeline --ranks 4 --schedule pipedream --micro-batches 100 --steps 1
  paceline bench pipeline --hosts a,b --durations 12:14:10,9:11:8 --json pipeline.json

A step begins on all ranks together, and ends when the last one has ended. The simulator's messages take no time, so what
the measured step takes more is what the links and this machine add. `paceline simulate pipeline` takes the same options.

Exit codes: 0 done; 1 a message was wrong, or a rank failed; 2 wrong usage; else as `paceline run`
)";

struct BenchPipelineOptions {
  BenchPipelineOptions() : app(kBenchPipelineAbout, "paceline bench pipeline") {
    const auto add = adder(app, kBenchPipelineMore);
    add_ranks_options(app, ranks);
    add_pipeline_options(app, common);
    add("--steps", steps, "N", "steps, after one that warms up (3)");
    add("--svg", svg, "FILE", "draw the ranks' work in the step of the median time");
    add("--json", json, "FILE", "write the figures as one object; - is stdout, without the table");
  }
  CLI::App app;
  RanksOptions ranks;
  PipelineOptions common;
  std::string steps = "3", svg, json;
};

// The times of all ranks' operations in one step, on rank 0; elsewhere of nobody.
pipeline::TimedOrder gathered(Communicator& world, const pipeline::Order& order,
                              const pipeline::StepReport& report, Clock::time_point begin,
                              Clock::time_point end) {
  const auto since = [begin](Clock::time_point at) {
    return std::chrono::duration<double>(at - begin).count();
  };
  std::vector<double> own = {since(end), report.compute_seconds};
  for (const pipeline::OperationSpan& span : report.operations) {
    own.push_back(since(span.begin));
    own.push_back(since(span.end));
  }
  std::vector<double> all(own.size() * static_cast<std::size_t>(world.size()));
  world.gather(const_buffer_of(own), buffer_of(all)).wait();
  pipeline::TimedOrder step;
  if (world.rank() != 0) return step;
  double busy = 0;
  for (std::size_t rank = 0; rank < order.ranks.size(); ++rank) {
    const double* of_rank = all.data() + rank * own.size();
    step.makespan = std::max(step.makespan, of_rank[0]);
    step.busy.push_back(of_rank[1]);
    busy += of_rank[1];
    auto& times = step.ranks.emplace_back();
    for (std::size_t i = 0; i < order.ranks[rank].size(); ++i)
      times.push_back({order.ranks[rank][i], of_rank[2 + 2 * i], of_rank[3 + 2 * i]});
  }
  step.idle_share = 1 - busy / (step.makespan * static_cast<double>(order.ranks.size()));
  return step;
}

PipelineMeasurement measured(Job& job, const PipelineCase& one, int steps) {
  const pipeline::PipelineCosts costs = one.costs();
  PipelineMeasurement result{.steps = {},
                             .simulated = pipeline::simulate_order(one.order, costs).value(),
                             .transport = job.transport()};
  Communicator& world = job.world();
  WaitingStages stages(world, one.order, costs);
  for (int step = 0; step <= steps; ++step) {
    world.barrier().wait();
    const auto begin = Clock::now();
    const auto report = pipeline::run(world, one.order, stages, static_cast<std::uint64_t>(step));
    const auto end = Clock::now();
    auto timed = gathered(world, one.order, report, begin, end);
    if (step > 0) result.steps.push_back(std::move(timed));
  }
  result.errors = static_cast<int>(world.all_reduce(stages.errors()));
  return result;
}

int steps_of(const BenchPipelineOptions& given) {
  return parse_count("--steps", given.steps, 1, 100'000);
}

// With --ranks, a wrong shape is told before ranks are started for it.
void check_before_start(const BenchPipelineOptions& given) {
  steps_of(given);
  if (given.ranks.ranks.empty()) return;
  checked_case(given.common, parse_count("--ranks", given.ranks.ranks, 1, 4096));
}

int pipeline_on(Job& job, const BenchPipelineOptions& given) {
  const PipelineCase one = checked_case(given.common, job.world_size());
  const int steps = steps_of(given);
  std::unique_ptr<DurableFile> file;
  on_rank_0(job, [&] {
    if (!given.json.empty() && given.json != "-")
      file = std::make_unique<DurableFile>("report", given.json);
  });
  const PipelineMeasurement result = measured(job, one, steps);
  if (job.rank() != 0) return 0;
  if (given.json == "-") {
    fmt::print("{}", pipeline_bench_json(one, result));
  } else {
    constexpr std::size_t kColumns = 120;
    fmt::print("{}\n{}\n{}", pipeline_title(one, result.median()),
               pipeline_picture(result.median(), terminal_columns(kColumns)),
               pipeline_bench_text(one, result));
  }
  if (file) file->commit(pipeline_bench_json(one, result));
  if (!given.svg.empty()) write_output("--svg", given.svg, pipeline_svg(one, result.median(), ""));
  if (result.errors > 0) fmt::print(stderr, "{} values of messages were wrong\n", result.errors);
  return result.errors > 0 ? kFailed : 0;
}

int bench_pipeline_main(const std::vector<std::string>& arguments) {
  BenchPipelineOptions line;
  if (!parse(line.app, arguments)) return 0;
  check_before_start(line);
  return run_on_ranks(line.ranks, "pipeline", arguments,
                      [&line](Job& job, const RanksOptions&) { return pipeline_on(job, line); });
}

}  // namespace

namespace catalogue {

Subcommand bench_pipeline() {
  return {.name = "pipeline",
          .summary = "a pipeline's schedule on these links, with waiting for work",
          .main = bench_pipeline_main,
          .described = described<BenchPipelineOptions>,
          .group = "bench"};
}

}  // namespace catalogue
}  // namespace paceline::cli
