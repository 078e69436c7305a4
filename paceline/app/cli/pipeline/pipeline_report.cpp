#include "paceline/app/cli/pipeline/pipeline_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "paceline/core/observe/timeline_plot.h"

namespace paceline::cli {
namespace {

constexpr double kMs = 1e3;  // milliseconds in a second

std::string counted(int count, std::string_view one, std::string_view several) {
  return fmt::format("{} {}", count, count == 1 ? one : several);
}

using pipeline::Kind;
using pipeline::OperationTime;

// Up to this number of chunks, each chunk is drawn in its own colours.
constexpr int kMostColouredChunks = 2;

std::vector<std::string> kinds_of(const pipeline::Order& order) {
  const int chunks = order.placement().chunks();
  std::vector<std::string> kinds = {"forward", "backward"};
  if (order.split_backward) kinds.emplace_back("weight gradient");
  if (chunks == kMostColouredChunks)
    return {"forward, chunk 0", "backward, chunk 0", "forward, chunk 1", "backward, chunk 1"};
  return kinds;
}

std::size_t kind_of(const pipeline::Order& order, const pipeline::Operation& operation) {
  const auto kind = static_cast<std::size_t>(operation.kind);
  const pipeline::Placement placement = order.placement();
  if (placement.chunks() != kMostColouredChunks) return kind;
  return kind + 2 * static_cast<std::size_t>(operation.stage / placement.ranks);
}

char letter_of(Kind kind) {
  return kind == Kind::forward ? 'F' : kind == Kind::backward ? 'B' : 'W';
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

std::string pipeline_svg(const PipelineCase& one, const pipeline::TimedOrder& run,
                         const std::string& made_by) {
  observe::TimelinePlot plot{.title = pipeline_title(one, run),
                             .kinds = kinds_of(one.order),
                             .mark = {},
                             .bands = {{.title = ""}},
                             .made_by = made_by};
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    observe::TimelineLane lane{fmt::format("rank {}", rank)};
    for (const auto& [operation, begin, end] : run.ranks[rank]) {
      lane.spans.push_back({.begin = begin,
                            .end = end,
                            .kind = kind_of(one.order, operation),
                            .title = fmt::format("{}: {:.2f} to {:.2f} ms", text_of(operation),
                                                 begin * 1e3, end * 1e3),
                            .label = std::to_string(operation.micro_batch)});
    }
    plot.bands.front().lanes.push_back(std::move(lane));
  }
  return to_svg(plot);
}

std::string pipeline_picture(const pipeline::TimedOrder& run, std::size_t columns) {
  const std::string widest = fmt::format("rank {} ", run.ranks.size() - 1);
  double shortest = run.makespan;
  for (const auto& lane : run.ranks)
    for (const OperationTime& time : lane) shortest = std::min(shortest, time.end - time.begin);
  if (columns <= widest.size() || shortest <= 0) return {};
  const auto room = static_cast<double>(columns - widest.size());
  // The shortest operation has a whole number of columns, so that equal ones are equally wide.
  const double letters = std::min(4.0, std::floor(room / run.makespan * shortest));
  if (letters < 1) return {};
  const double scale = letters / shortest;
  const auto column = [scale](double seconds) {
    return static_cast<std::size_t>(std::llround(seconds * scale));
  };
  std::string text;
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    std::string lane(column(run.makespan), '.');
    for (const auto& [operation, begin, end] : run.ranks[rank]) {
      const std::size_t from = column(begin), wide = std::max<std::size_t>(1, column(end) - from);
      std::string label = letter_of(operation.kind) + std::to_string(operation.micro_batch);
      if (label.size() > wide) label.resize(1);
      label.resize(wide, ' ');
      lane.replace(from, wide, label);
    }
    text += fmt::format("{:<{}}{}\n", fmt::format("rank {}", rank), widest.size(), lane);
  }
  return text;
}

}  // namespace paceline::cli
