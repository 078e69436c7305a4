#include "paceline/app/cli/layouts/layout_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <numeric>

#include <nlohmann/json.hpp>

#include "paceline/app/cli/shared/quantities.h"
#include "paceline/core/base/check.h"
#include "paceline/core/mesh/mesh.h"

namespace paceline::cli {
namespace {

constexpr int kMostRanks = 4096;

int product_of(const std::string& option, const std::string& axes) {
  int ranks = 1;
  for (const std::string& axis : split(axes, ',')) {
    const auto at = axis.find('=');
    if (at == std::string::npos) continue;  // the parser refuses it, and says what is right
    ranks *= parse_count(option, axis.substr(at + 1), 1, kMostRanks);
    PACELINE_CHECK(ranks <= kMostRanks, "{} needs more than {} ranks", option, kMostRanks);
  }
  return ranks;
}

LayoutChoice parse_layout(std::string_view option, const std::string& name) {
  LayoutChoice choice{.name = name, .option = {}};
  if (name == "none") return choice;
  choice.option = name;
  std::ranges::replace(choice.option, '+', ',');
  const std::string who = fmt::format("{}: {}", option, name);
  const auto layout = mesh::Layout::parse(choice.option, product_of(who, choice.option));
  PACELINE_CHECK(layout.has_value(), "{}: {}; \"none\" is one process", who, layout.error().what);
  choice.pp = layout.value().size({mesh::Axis::pp});
  choice.dp = layout.value().size({mesh::Axis::dp});
  choice.cp = layout.value().size({mesh::Axis::cp});
  choice.tp = layout.value().size({mesh::Axis::tp});
  return choice;
}

using nlohmann::json;

Failure no_figures(const std::string& what) {
  return {Fault::io, what, {}};
}

std::optional<double> figure_in(const json& summary, const char* key) {
  const auto found = summary.find(key);
  if (found == summary.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

// Empty unless there is a number for each rank.
std::vector<double> figures_in(const json& summary, const char* key, int ranks) {
  const auto found = summary.find(key);
  if (found == summary.end() || !found->is_array() ||
      found->size() != static_cast<std::size_t>(ranks) ||
      !std::ranges::all_of(*found, [](const json& one) { return one.is_number(); }))
    return {};
  return found->get<std::vector<double>>();
}

// Layers that are split among ranks exchange more than gradients, which no figure counts.
std::optional<double> traffic_in(const json& summary, const LayoutChoice& layout) {
  if (layout.tp > 1 || layout.cp > 1) return std::nullopt;
  double bytes = 0;
  if (layout.dp > 1) {
    const auto exchanged = figure_in(summary, "exchanged_bytes"),
               steps = figure_in(summary, "steps");
    if (!exchanged || !steps || *steps <= 0) return std::nullopt;
    bytes += *exchanged / *steps;
  }
  if (layout.pp > 1) {
    const auto crossed = figure_in(summary, "cut_bytes_per_step");
    if (!crossed) return std::nullopt;
    bytes += *crossed;
  }
  return bytes;
}

std::optional<double> storage_in(const json& summary, const LayoutChoice& layout) {
  const auto bytes = figures_in(summary, "parameter_bytes", layout.ranks());
  if (!bytes.empty()) return std::accumulate(bytes.begin(), bytes.end(), 0.0);
  const auto own = figure_in(summary, "stepped_bytes");
  if (!own || layout.pp > 1) return std::nullopt;
  return *own * layout.ranks();
}

std::optional<double> balance_in(const json& summary, const LayoutChoice& layout) {
  if (layout.ranks() == 1) return 1;
  const auto busy = figures_in(summary, "busy_microseconds", layout.ranks());
  const double all = std::accumulate(busy.begin(), busy.end(), 0.0);
  if (all <= 0) return std::nullopt;
  return *std::ranges::max_element(busy) * layout.ranks() / all;
}

}  // namespace

std::vector<LayoutChoice> parse_layouts(std::string_view option, const std::string& text) {
  std::vector<LayoutChoice> choices;
  for (const std::string& name : parse_list(option, text)) {
    LayoutChoice choice = parse_layout(option, name);
    PACELINE_CHECK(std::ranges::find(choices, choice) == choices.end(),
                   "{}: {} is named twice; leave one out", option, name);
    choices.push_back(std::move(choice));
  }
  return choices;
}

Result<MeasuredRun> read_measured_run(const std::string& file, const LayoutChoice& layout) {
  std::ifstream lines(file);
  if (!lines)
    return no_figures(
        fmt::format("the program has written no file {}: it must take --metrics FILE, and rank 0 "
                    "must run on this host",
                    file));
  json summary;
  for (std::string line; std::getline(lines, line);) {
    json object = json::parse(line, nullptr, false);
    if (object.is_object() && object.value("event", json()) == "summary")
      summary = std::move(object);
  }
  if (summary.is_null())
    return no_figures(
        fmt::format("{} has no line with \"event\": \"summary\", which the program must "
                    "write at its end",
                    file));
  const auto rate = figure_in(summary, "train_samples_per_second");
  if (!rate || *rate <= 0)
    return no_figures(
        fmt::format("the summary in {} has no \"train_samples_per_second\" above 0: let "
                    "the program make more steps",
                    file));
  return MeasuredRun{.samples_per_second = *rate,
                     .traffic_bytes = traffic_in(summary, layout),
                     .storage_bytes = storage_in(summary, layout),
                     .balance = balance_in(summary, layout)};
}

}  // namespace paceline::cli
