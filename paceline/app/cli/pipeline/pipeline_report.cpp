#include "paceline/app/cli/pipeline/pipeline_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

namespace paceline::cli {
namespace {

constexpr double kMs = 1e3;  // milliseconds in a second

std::string counted(int count, std::string_view one, std::string_view several) {
  return fmt::format("{} {}", count, count == 1 ? one : several);
}

}  // namespace

PipelineForms forms_of(const PipelineCase& one) {
  const pipeline::Schedule& schedule = one.choice.entry;
  const int m = one.micro_batches_in_all();
  PipelineForms forms;
  for (int rank = 0; rank < one.ranks; ++rank)
    forms.live.push_back(schedule.live(rank, one.ranks, m, one.choice.settings));
  if (!one.is_equal()) return forms;
  const pipeline::StageSeconds& seconds = one.durations.front();
  forms.makespan = schedule.makespan(one.ranks, m, seconds, one.choice.settings);
  forms.idle_share = 1 - m * seconds.sum() / forms.makespan;
  return forms;
}

std::string pipeline_title(const PipelineCase& one, const pipeline::TimedOrder& run) {
  std::string shape =
      fmt::format("{}, {}, {}", one.choice.text(), counted(one.ranks, "rank", "ranks"),
                  counted(one.micro_batches, "micro-batch", "micro-batches"));
  if (one.batches > 1) shape += fmt::format(", {} batches", one.batches);
  return fmt::format("{}: {:.1f} ms, idle {:.1f} %", shape, run.makespan * kMs,
                     run.idle_share * 100);
}

std::string pipeline_table(const PipelineCase& one, const pipeline::TimedOrder& run) {
  const PipelineForms forms = forms_of(one);
  std::string text = fmt::format("{:<18}{:>14}{:>14}\n", "", "simulated", "closed form");
  const auto line = [&](std::string_view what, const std::string& simulated,
                        const std::string& closed) {
    text += fmt::format("{:<18}{:>14}{:>14}\n", what, simulated, closed);
  };
  const bool is_known = forms.makespan > 0;
  line("makespan", fmt::format("{:.2f} ms", run.makespan * kMs),
       is_known ? fmt::format("{:.2f} ms", forms.makespan * kMs) : "-");
  line("idle", fmt::format("{:.2f} %", run.idle_share * 100),
       is_known ? fmt::format("{:.2f} %", forms.idle_share * 100) : "-");
  line("live activations", fmt::format("{}", fmt::join(pipeline::peak_live(one.order), " ")),
       fmt::format("{}", fmt::join(forms.live, " ")));
  text += "Live activations: the most of each rank at a time, in micro-batches of one stage";
  const int chunks = one.order.placement().chunks();
  if (chunks > 1) text += fmt::format("; {} stages are a rank's share", chunks);
  return text +
         ".\nThe closed form is for ranks that take equal times and messages that take none.\n";
}

std::string pipeline_json(const PipelineCase& one, const pipeline::TimedOrder& run) {
  using OrderedJson = nlohmann::ordered_json;
  const PipelineForms forms = forms_of(one);
  const std::vector<int> live = pipeline::peak_live(one.order);
  OrderedJson ranks = OrderedJson::array();
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    OrderedJson operations = OrderedJson::array();
    for (const auto& [operation, begin, end] : run.ranks[rank]) {
      operations.push_back({{"kind", name_of(operation.kind)},
                            {"stage", operation.stage},
                            {"micro_batch", operation.micro_batch},
                            {"begin_ms", begin * kMs},
                            {"end_ms", end * kMs}});
    }
    ranks.push_back({{"rank", rank},
                     {"busy_ms", run.busy[rank] * kMs},
                     {"live_activations", live[rank]},
                     {"operations", operations}});
  }
  OrderedJson closed = {{"live_activations", forms.live}};
  if (forms.makespan > 0) {
    closed["makespan_ms"] = forms.makespan * kMs;
    closed["idle_share"] = forms.idle_share;
  }
  const OrderedJson json = {{"schedule", one.choice.text()},
                            {"stages", one.order.stages},
                            {"micro_batches", one.micro_batches},
                            {"batches", one.batches},
                            {"makespan_ms", run.makespan * kMs},
                            {"idle_share", run.idle_share},
                            {"live_activations", live},
                            {"closed_form", closed},
                            {"ranks", ranks}};
  return json.dump(1) + "\n";
}

}  // namespace paceline::cli
