#include "paceline/core/plan/split_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

namespace paceline::plan {
namespace {

double cut_bytes_per_sample(const SplitQuestion& question) {
  double bytes = 0;
  const auto& stages = question.partition.stages;
  for (std::size_t i = 0; i + 1 < stages.size(); ++i)
    bytes += question.layers[static_cast<std::size_t>(stages[i].last)].output_bytes;
  return bytes / question.profiled_batch;
}

double balance_of(LayerCosts layers, const StagePartition& partition) {
  double most = 0, all = 0;
  for (const Stage& stage : partition.stages) {
    double seconds = 0;
    for (int layer = stage.first; layer <= stage.last; ++layer)
      seconds += layers[static_cast<std::size_t>(layer)].seconds();
    most = std::max(most, seconds);
    all += seconds;
  }
  return all > 0 ? most * partition.size() / all : 1;
}

Failure misuse(std::string what) {
  return {Fault::misuse, std::move(what), {}};
}

}  // namespace

std::string_view name_of(SplitLabel label) {
  constexpr std::array<std::string_view, 4> kNames = {"SPSD", "SPMD", "MPSD", "MPMD"};
  return kNames[static_cast<std::size_t>(label)];
}

SplitLabel label_of(int data, int model) {
  if (model > 1) return data > 1 ? SplitLabel::mpmd : SplitLabel::mpsd;
  return data > 1 ? SplitLabel::spmd : SplitLabel::spsd;
}

double data_traffic(double parameter_bytes, int ranks) {
  return 2 * parameter_bytes * (ranks - 1) / ranks;
}

double cut_traffic(double cut_bytes_per_sample, double batch) {
  return 2 * cut_bytes_per_sample * batch;
}

double crossover_batch(double parameter_bytes, int ranks, double cut_bytes_per_sample) {
  if (cut_bytes_per_sample <= 0) return std::numeric_limits<double>::infinity();
  return data_traffic(parameter_bytes, ranks) / cut_traffic(cut_bytes_per_sample, 1);
}

Result<SplitTable> split_table(const SplitQuestion& question) {
  const int layers = static_cast<int>(question.layers.size()), ranks = question.ranks;
  if (!question.partition.is_straight() || question.partition.stages.empty() ||
      question.partition.stages.back().last != layers - 1)
    return misuse(
        fmt::format("the cut \"{}\" is compared as it stands: give one of all {} layers "
                    "with one replica a stage",
                    question.partition.text(), layers));
  if (ranks < 1 || question.batch < ranks)
    return misuse(fmt::format("{} samples for {} ranks: give each rank one sample or more",
                              question.batch, ranks));
  const double weights = weights_of(question.layers), cut = cut_bytes_per_sample(question);
  const int stages = question.partition.size();
  const double batch = question.batch;
  SplitTable table{.rows = {}, .crossover = crossover_batch(weights, ranks, cut)};
  table.rows.push_back(
      {.split = "none", .samples = batch, .storage_bytes = weights, .limited_by = "one device"});
  table.rows.push_back({.split = fmt::format("dp={}", ranks),
                        .label = label_of(ranks, 1),
                        .devices = ranks,
                        .samples = batch / ranks,
                        .traffic_bytes = data_traffic(weights, ranks),
                        .storage_bytes = weights * ranks,
                        .limit = question.batch,
                        .limited_by = "samples of a step"});
  table.rows.push_back({.split = fmt::format("pp={}", stages),
                        .label = label_of(1, stages),
                        .devices = stages,
                        .samples = batch,
                        .traffic_bytes = cut_traffic(cut, batch),
                        .storage_bytes = weights,
                        .balance = balance_of(question.layers, question.partition),
                        .limit = layers,
                        .limited_by = "layers"});
  return table;
}

std::string text_of(const SplitTable& table) {
  std::string text = fmt::format("{:<8}{:<6}{:>9}{:>16}{:>16}{:>9}  {}\n", "split", "label",
                                 "samples", "traffic B", "storage B", "balance", "limit");
  for (const SplitRow& row : table.rows)
    text += fmt::format("{:<8}{:<6}{:>9.6g}{:>16.0f}{:>16.0f}{:>9.2f}  {}\n", row.split,
                        name_of(row.label), row.samples, row.traffic_bytes, row.storage_bytes,
                        row.balance, fmt::format("{} {}", row.limit, row.limited_by));
  return text + fmt::format(
                    "both send as much at a batch of {:.1f}; above it data parallelism "
                    "sends less\n",
                    table.crossover);
}

}  // namespace paceline::plan
