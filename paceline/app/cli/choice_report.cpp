#include "paceline/app/cli/choice_report.h"

#include <fmt/format.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "paceline/app/cli/quantities.h"
#include "paceline/app/measure/quantile.h"

namespace paceline::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMicro = 1e-6;
constexpr double kClose = 0.1;

}  // namespace

const ChoiceCell::Candidate& ChoiceCell::fastest() const {
  return *std::ranges::min_element(candidates, {}, &Candidate::measured_us);
}

ChoiceCell cell_of(const std::vector<Forecast>& forecasts, const measure::Comparison& comparison,
                   int ranks, const std::string& transport) {
  const auto& measured = comparison.candidates;
  const measure::Candidate& any = measured.front().candidate;
  ChoiceCell cell{.operation = any.operation,
                  .transport = transport,
                  .dtype = any.dtype,
                  .ranks = ranks,
                  .bytes = any.bytes};
  for (std::size_t i = 0; i < forecasts.size(); ++i) {
    cell.candidates.push_back({.algorithm = std::string(forecasts[i].algorithm),
                               .model_us = forecasts[i].seconds / kMicro,
                               .measured_us = measure::median(measured[i].block_medians) / kMicro});
  }
  const auto fastest = static_cast<std::size_t>(&cell.fastest() - cell.candidates.data());
  for (std::size_t i = 0; i < forecasts.size(); ++i)
    cell.candidates[i].ratio = measure::median(ratios(measured[i], measured[fastest]));
  return cell;
}

double share_within(const std::vector<ChoiceCell>& cells, double regret) {
  if (cells.empty()) return 1;
  const auto close =
      std::ranges::count_if(cells, [&](const ChoiceCell& cell) { return cell.regret() <= regret; });
  return static_cast<double>(close) / static_cast<double>(cells.size());
}

std::string choice_head() {
  return fmt::format("{:>10}  {:<24} {:>12} {:>12} {:>8}\n", "bytes", "algorithm", "model us",
                     "measured us", "ratio");
}

std::string choice_lines(const ChoiceCell& cell) {
  std::string lines;
  for (const ChoiceCell::Candidate& one : cell.candidates) {
    const bool is_chosen = &one == &cell.chosen();
    lines += fmt::format("{:>10}  {:<24} {:>12.1f} {:>12.1f} {:>8.2f}{}\n",
                         is_chosen ? size_text(cell.bytes) : "", one.algorithm, one.model_us,
                         one.measured_us, one.ratio, is_chosen ? "  chosen" : "");
  }
  return lines;
}

std::string choice_json(const std::vector<ChoiceCell>& cells) {
  Json list = Json::array();
  for (const ChoiceCell& cell : cells) {
    Json candidates = Json::array();
    for (const ChoiceCell::Candidate& one : cell.candidates) {
      candidates.push_back({{"algorithm", one.algorithm},
                            {"model_us", one.model_us},
                            {"measured_us", one.measured_us},
                            {"ratio", one.ratio}});
    }
    list.push_back({{"operation", name_of(cell.operation)},
                    {"transport", cell.transport},
                    {"dtype", name_of(cell.dtype)},
                    {"ranks", cell.ranks},
                    {"bytes", cell.bytes},
                    {"chosen", cell.chosen().algorithm},
                    {"model_us", cell.chosen().model_us},
                    {"measured_us", cell.chosen().measured_us},
                    {"fastest", cell.fastest().algorithm},
                    {"regret", cell.regret()},
                    {"candidates", std::move(candidates)}});
  }
  const Json json = {{"within_10_percent", share_within(cells, kClose)},
                     {"cells", std::move(list)}};
  return json.dump(2) + "\n";
}

}  // namespace paceline::cli
