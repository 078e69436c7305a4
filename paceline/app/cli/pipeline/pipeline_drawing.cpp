#include "paceline/app/cli/pipeline/pipeline_drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "paceline/app/cli/pipeline/pipeline_report.h"
#include "paceline/core/observe/timeline_plot.h"

namespace paceline::cli {
namespace {

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
