#include "paceline/app/cli/layouts/layouts_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "paceline/core/base/check.h"

namespace paceline::cli {
namespace {

using Json = nlohmann::ordered_json;
using Known = std::optional<double>;

plan::StagePartition partition_of(const ModelFacts& facts, int stages) {
  const int layers = static_cast<int>(facts.layers.size());
  auto cut = facts.partition.empty() ? plan::even_cut(layers, stages)
                                     : plan::StagePartition::parse(facts.partition, layers);
  PACELINE_CHECK(cut.has_value(), "the recorded model cannot be cut as the program's: {}",
                 cut.error().what);
  PACELINE_CHECK(cut.value().size() == stages,
                 "--partition {} has {} stages, and pp={} has {}: let it have as many",
                 facts.partition, cut.value().size(), stages, stages);
  return std::move(cut).value();
}

// The formulas of a straight cut, for which layers must be known.
plan::SplitRow cut_row(const ModelFacts& facts, int stages) {
  const auto table = plan::split_table({.layers = facts.layers,
                                        .profiled_batch = facts.profiled_batch,
                                        .batch = facts.batch.value_or(1),
                                        .ranks = 1,
                                        .partition = partition_of(facts, stages)});
  PACELINE_CHECK(table.has_value(), "{}", table.error().what);
  return table.value().rows.back();
}

void take_limit(LayoutRow& row, const ModelFacts& facts) {
  const LayoutChoice& layout = row.layout;
  if (layout.ranks() == 1) {
    row.limit = 1;
    row.limited_by = "device";
  } else if (layout.has_data_alone()) {
    row.limit = facts.batch;
    row.limited_by = "samples of a step";
  } else if (layout.has_stages_alone()) {
    if (!facts.layers.empty()) row.limit = static_cast<int>(facts.layers.size());
    row.limited_by = "layers";
  } else {
    std::vector<std::string> limits;
    if (layout.pp > 1) limits.emplace_back("layers");
    if (layout.dp > 1) limits.emplace_back("samples");
    if (layout.cp > 1) limits.emplace_back("positions");
    if (layout.tp > 1) limits.emplace_back("width of a layer");
    for (const std::string& one : limits)
      row.limited_by += (row.limited_by.empty() ? "" : " x ") + one;
  }
}

LayoutRow row_of(const ModelFacts& facts, const LayoutChoice& layout, const MeasuredRun& run) {
  LayoutRow row{.layout = layout, .limited_by = {}, .measured = run};
  if (facts.batch) row.samples = static_cast<double>(*facts.batch) / layout.dp;
  if (facts.weight_bytes) row.storage_bytes = *facts.weight_bytes * layout.dp * layout.cp;
  if (layout.pp == 1) row.balance = 1;  // each rank has as much of each layer
  if (layout.ranks() == 1) row.traffic_bytes = 0;
  if (layout.has_data_alone() && facts.weight_bytes)
    row.traffic_bytes = plan::data_traffic(*facts.weight_bytes, layout.dp);
  if (layout.pp > 1 && !facts.layers.empty()) {
    const plan::SplitRow cut = cut_row(facts, layout.pp);
    row.balance = cut.balance;
    if (layout.has_stages_alone() && facts.batch) row.traffic_bytes = cut.traffic_bytes;
  }
  take_limit(row, facts);
  return row;
}

// Traffic of stages grows with the batch, that of replicas does not.
Known crossover_of(Known data, Known stages, std::optional<int> batch) {
  if (!data || !stages || !batch || *stages <= 0) return std::nullopt;
  return *data / (*stages / *batch);
}

std::string bytes_if_known(Known bytes) {
  return bytes ? fmt::format("{:.0f}", *bytes) : "-";
}
std::string ratio_if_known(Known ratio) {
  return ratio ? fmt::format("{:.2f}", *ratio) : "-";
}

std::string crossover_text(const LayoutsTable& table) {
  if (!table.crossover && !table.measured_crossover) return {};
  std::string text = fmt::format("{} and {} send as much at a batch of ", table.data, table.stages);
  if (table.crossover) text += fmt::format("{:.1f} by the formulas", *table.crossover);
  if (table.measured_crossover)
    text +=
        fmt::format("{}{:.1f} as measured", table.crossover ? ", " : "", *table.measured_crossover);
  const double crossover = table.crossover ? *table.crossover : *table.measured_crossover;
  return text + fmt::format("; at {} {} sends less\n", *table.batch,
                            *table.batch > crossover ? table.data : table.stages);
}

Json json_if_known(Known value) {
  return value ? Json(*value) : Json();
}
Json formula_and_measured(Known formula, Known measured) {
  return {{"formula", json_if_known(formula)}, {"measured", json_if_known(measured)}};
}

}  // namespace

ModelFacts facts_of(const schedule::Model& model) {
  ModelFacts facts{.batch = model.batch, .layers = {}, .partition = {}};
  facts.profiled_batch = model.batch;
  for (const schedule::Layer& layer : model.layers)
    facts.layers.push_back({.forward = layer.forward,
                            .backward = layer.backward,
                            .output_bytes = static_cast<double>(layer.output_bytes),
                            .weight_bytes = static_cast<double>(layer.weight_bytes),
                            .saved_bytes = static_cast<double>(layer.saved_bytes)});
  facts.weight_bytes =
      facts.layers.empty() ? static_cast<double>(model.bytes()) : plan::weights_of(facts.layers);
  return facts;
}

LayoutsTable layouts_table(const ModelFacts& facts, const std::vector<LayoutChoice>& layouts,
                           const std::vector<MeasuredRun>& runs) {
  LayoutsTable table{.rows = {}, .batch = facts.batch, .data = {}, .stages = {}};
  for (std::size_t i = 0; i < layouts.size(); ++i)
    table.rows.push_back(row_of(facts, layouts[i], runs[i]));
  const auto data = std::ranges::find_if(
      table.rows, [](const LayoutRow& row) { return row.layout.has_data_alone(); });
  const auto stages = std::ranges::find_if(
      table.rows, [](const LayoutRow& row) { return row.layout.has_stages_alone(); });
  if (data == table.rows.end() || stages == table.rows.end()) return table;
  table.data = data->layout.name;
  table.stages = stages->layout.name;
  table.crossover = crossover_of(data->traffic_bytes, stages->traffic_bytes, facts.batch);
  table.measured_crossover =
      crossover_of(data->measured.traffic_bytes, stages->measured.traffic_bytes, facts.batch);
  return table;
}

std::string layouts_text(const LayoutsTable& table) {
  std::size_t width = 8;
  for (const LayoutRow& row : table.rows) width = std::max(width, row.layout.name.size() + 2);
  constexpr const char* kLine = "{:<{}}{:<6}{:>8}{:>13}{:>13}{:>13}{:>13}{:>9}{:>9}{:>11}  {}\n";
  constexpr std::size_t kBeforeTraffic = 14, kBytes = 26, kRatios = 18;
  std::string text = fmt::format("{:{}}{:>{}}{:>{}}{:>{}}\n", "", width + kBeforeTraffic,
                                 "traffic B", kBytes, "storage B", kBytes, "balance", kRatios);
  text += fmt::format(kLine, "layout", width, "label", "samples", "formula", "measured", "formula",
                      "measured", "formula", "measured", "samples/s", "limit");
  for (const LayoutRow& row : table.rows)
    text +=
        fmt::format(kLine, row.layout.name, width, name_of(row.layout.label()),
                    row.samples ? fmt::format("{:.6g}", *row.samples) : "-",
                    bytes_if_known(row.traffic_bytes), bytes_if_known(row.measured.traffic_bytes),
                    bytes_if_known(row.storage_bytes), bytes_if_known(row.measured.storage_bytes),
                    ratio_if_known(row.balance), ratio_if_known(row.measured.balance),
                    fmt::format("{:.1f}", row.measured.samples_per_second),
                    row.limit ? fmt::format("{} {}", *row.limit, row.limited_by) : row.limited_by);
  return text + crossover_text(table);
}

std::string layouts_json(const LayoutsTable& table) {
  Json json = {{"batch", table.batch ? Json(*table.batch) : Json()},
               {"crossover_batch", formula_and_measured(table.crossover, table.measured_crossover)},
               {"layouts", Json::array()}};
  for (const LayoutRow& row : table.rows)
    json["layouts"].push_back(
        {{"layout", row.layout.name},
         {"label", name_of(row.layout.label())},
         {"ranks", row.layout.ranks()},
         {"samples_per_device", json_if_known(row.samples)},
         {"traffic_bytes", formula_and_measured(row.traffic_bytes, row.measured.traffic_bytes)},
         {"storage_bytes", formula_and_measured(row.storage_bytes, row.measured.storage_bytes)},
         {"balance", formula_and_measured(row.balance, row.measured.balance)},
         {"samples_per_second", row.measured.samples_per_second},
         {"limit", row.limit ? Json(*row.limit) : Json()},
         {"limited_by", row.limited_by}});
  return json.dump(1) + "\n";
}

}  // namespace paceline::cli
