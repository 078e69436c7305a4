// `paceline plan pipeline`: stages, replicas, micro-batches, time and memory, from a profile.
#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "paceline/app/cli/plan/plan_report.h"
#include "paceline/app/cli/shared/arguments.h"
#include "paceline/app/cli/shared/quantities.h"
#include "paceline/app/cli/shared/subcommand.h"
#include "paceline/app/cli/shared/text.h"
#include "paceline/core/base/check.h"
#include "paceline/core/schedule/replay/model_file.h"

namespace paceline::cli {
namespace {

constexpr const char* kPlanAbout =
    "Computes from a recorded model which layers should stand on which ranks, with how many "
    "micro-batches, and forecasts time\n"
    "and memory, beside data parallelism.";

constexpr const char* kPlanMore = R"(Examples:
  paceline profile --output mlp.json -- build/release/bin/fashion_mnist --model mlp --steps 30
  paceline plan pipeline --profile mlp.json --ranks 2 --bandwidth 1gbit
  paceline plan pipeline --profile deep.json --ranks 4 --memory-limit 480MiB --recompute auto
  paceline plan pipeline --profile vgg.json --ranks 16 --schedule pipedream        stages with replicas
  paceline plan pipeline --profile mlp.json --ranks 2 --partition 0-2,3-5 --micro-batches 8 --json plan.json

Times of the profile are scaled to a micro-batch's samples, and --start is added for each micro-batch on each stage. A
schedule with a flush is planned for each number of stages that divides the ranks, whole copies side by side; under
pipedream the partitioner of its paper chooses stages and replicas. docs/guide/planning.md tells the formulas.

Exit codes: 0 done; 2 wrong usage, or nothing fits into the limit of memory
)";

struct PlanOptions {
  PlanOptions() {
    const auto add = adder(app, kPlanMore);
    add("--profile", profile, "FILE", "a model with layers, recorded by `paceline profile`");
    add("--ranks", ranks, "N", "ranks of the run");
    add("--batch", batch, "B", "samples of a step of all ranks together (the profile's)");
    add("--schedule", schedule, "S",
        "sequential, gpipe, 1f1b, interleaved:chunks=V, zero_bubble, pipedream, pipedream_2bw "
        "(1f1b)");
    add("--bandwidth", bandwidth, "R",
        "of a rank's link, each way: 1gbit, 200mbit, or bytes a second as 125MiB (1gbit)");
    add("--latency", latency, "T", "of a message (0.1ms)");
    add("--start", start, "T", "time to start a micro-batch on a stage (0.2ms)");
    add("--micro-batches", micro_batches, "N|auto", "micro-batches of a step (auto)");
    add("--partition", partition, "P", "layers of each stage, as 0-3x2,4x1 (chosen)");
    add("--recompute", recompute, "R", "none, full, every:K, auto (none)");
    add("--memory-limit", memory_limit, "SIZE", "of a rank, as 480MiB (none)");
    add("--optimizer", optimizer, "NAME", "what a rank keeps for it: sgd, momentum, adam (adam)");
    add("--precision", precision, "P",
        "full, as the profile, or o2: weights of 16 bits with masters of float32 (full)");
    add("--zero", zero, "STAGE", "0 to 3: state that data parallel ranks divide (0)");
    add("--json", json, "FILE", "write the plans as JSON; - is stdout, without the table");
  }
  CLI::App app{kPlanAbout, "paceline plan pipeline"};
  std::string profile, ranks, batch, schedule = "1f1b", bandwidth = "1gbit", latency = "0.1ms",
                                     start = "0.2ms", micro_batches = "auto", partition,
                                     recompute = "none", memory_limit, optimizer = "adam",
                                     precision = "full", zero = "0", json;
};

double seconds_of(std::string_view option, const std::string& text) {
  return std::chrono::duration<double>(parse_duration(option, text)).count();
}

double slots_of(const std::string& optimizer) {
  const std::string name = parse_choice("--optimizer", optimizer, {"sgd", "momentum", "adam"});
  return name == "sgd" ? 0 : name == "momentum" ? 1 : 2;
}

// The value, or a misuse that begins with the option.
template <typename T>
T value_of(std::string_view option, Result<T> parsed) {
  if (!parsed) throw_misuse(fmt::format("{}: {}", option, parsed.error().what));
  return std::move(parsed).value();
}

plan::PlanQuestion question_of(const PlanOptions& given) {
  constexpr int kMostRanks = 1024, kMost = 1'000'000'000;
  PACELINE_CHECK(!given.profile.empty(),
                 "--profile is missing, the file of a recorded model; for example `paceline plan "
                 "pipeline --profile mlp.json --ranks 2`; "
                 "`paceline profile` records one");
  PACELINE_CHECK(!given.ranks.empty(), "--ranks is missing; for example --ranks 2");
  const schedule::Model model = schedule::read_model(given.profile);
  plan::PlanQuestion question{.layers = plan::profiled_layers(model, given.profile).value(),
                              .profiled_batch = static_cast<double>(model.batch),
                              .batch = model.batch};
  question.ranks = parse_count("--ranks", given.ranks, 1, kMostRanks);
  if (!given.batch.empty()) question.batch = parse_count("--batch", given.batch, 1, kMost);
  question.form = value_of("--schedule", plan::PipelineForm::parse(given.schedule));
  question.bytes_per_second = parse_bandwidth("--bandwidth", given.bandwidth);
  question.latency = seconds_of("--latency", given.latency);
  question.start = seconds_of("--start", given.start);
  if (given.micro_batches != "auto")
    question.micro_batches = parse_count("--micro-batches", given.micro_batches, 1, kMost);
  if (!given.partition.empty())
    question.partition = value_of(
        "--partition",
        plan::StagePartition::parse(given.partition, static_cast<int>(question.layers.size())));
  question.recompute = value_of("--recompute", plan::Recompute::parse(given.recompute));
  if (!given.memory_limit.empty())
    question.memory_limit = static_cast<double>(parse_size("--memory-limit", given.memory_limit));
  question.optimizer_slots = slots_of(given.optimizer);
  question.has_masters = parse_choice("--precision", given.precision, {"full", "o2"}) == "o2";
  question.zero_stage = parse_count("--zero", given.zero, 0, 3);
  return question;
}

int plan_pipeline_main(const std::vector<std::string>& arguments) {
  PlanOptions given;
  if (!parse(given.app, arguments)) return 0;
  PlanRun run{.profile = given.profile, .question = question_of(given), .report = {}};
  run.report = plan::plan_pipeline(run.question).value();
  if (given.json != "-") fmt::print("{}", plan_text(run));
  if (!given.json.empty()) write_output("--json", given.json, plan_json(run));
  return 0;
}

}  // namespace

namespace catalogue {

Subcommand plan_pipeline() {
  return {.name = "pipeline",
          .summary = "stages, replicas, micro-batches, time and memory, from a profile",
          .main = plan_pipeline_main,
          .described = described<PlanOptions>,
          .group = "plan"};
}

}  // namespace catalogue
}  // namespace paceline::cli
