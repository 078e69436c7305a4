#include "paceline/app/cli/bench/choice_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include <nlohmann/json.hpp>

#include "paceline/app/cli/shared/quantities.h"
#include "paceline/app/measure/quantile.h"

namespace paceline::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMicro = 1e-6;
constexpr double kClose = 0.1;

constexpr double kLow = 0.1, kHigh = 0.9;  // quantiles of the spread

double median_without(std::vector<double> blocks, std::size_t block) {
  if (blocks.size() > 1) blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(block));
  return measure::median(std::move(blocks));
}

std::vector<double> ratios_to_the_fastest(const measure::Measurement& chosen,
                                          std::span<const measure::Measurement> candidates) {
  std::vector<double> ratios;
  for (std::size_t block = 0; block < chosen.block_medians.size(); ++block) {
    const auto elsewhere = [block](const measure::Measurement& one) {
      return median_without(one.block_medians, block);
    };
    const auto fastest = std::ranges::min_element(candidates, {}, elsewhere);
    ratios.push_back(chosen.block_medians[block] / fastest->block_medians[block]);
  }
  return ratios;
}

// Nothing where the chosen one is no candidate, because no call can name it.
Json model_us_of_chosen(const ChoiceCell& cell) {
  const auto found =
      std::ranges::find(cell.candidates, cell.chosen, &ChoiceCell::Candidate::algorithm);
  return found == cell.candidates.end() ? Json() : Json(found->model_us);
}

}  // namespace

const ChoiceCell::Candidate& ChoiceCell::fastest() const {
  return *std::ranges::min_element(candidates, {}, &Candidate::measured_us);
}

double ChoiceCell::regret() const {
  return std::max(0.0, measure::median(ratios) - 1);
}

double ChoiceCell::surest_regret() const {
  return std::max(0.0, measure::quantile(ratios, kLow) - 1);
}

ChoiceCell cell_of(std::string_view chosen, const std::vector<Forecast>& forecasts,
                   const measure::Comparison& comparison, int ranks, const std::string& transport) {
  const measure::Measurement& unnamed = comparison.candidates.front();
  const auto measured = std::span(comparison.candidates).subspan(1);
  ChoiceCell cell{.operation = unnamed.candidate.operation,
                  .transport = transport,
                  .dtype = unnamed.candidate.dtype,
                  .ranks = ranks,
                  .bytes = unnamed.candidate.bytes,
                  .chosen = std::string(chosen),
                  .measured_us = measure::median(unnamed.block_medians) / kMicro};
  for (std::size_t i = 0; i < forecasts.size(); ++i) {
    cell.candidates.push_back({.algorithm = std::string(forecasts[i].carrier),
                               .model_us = forecasts[i].seconds / kMicro,
                               .measured_us = measure::median(measured[i].block_medians) / kMicro});
  }
  const auto fastest = static_cast<std::size_t>(&cell.fastest() - cell.candidates.data());
  for (std::size_t i = 0; i < forecasts.size(); ++i)
    cell.candidates[i].ratio = measure::median(measure::ratios(measured[i], measured[fastest]));
  cell.ratios = ratios_to_the_fastest(unnamed, measured);
  return cell;
}

double share_within(const std::vector<ChoiceCell>& cells, double regret) {
  if (cells.empty()) return 1;
  const auto close =
      std::ranges::count_if(cells, [&](const ChoiceCell& cell) { return cell.regret() <= regret; });
  return static_cast<double>(close) / static_cast<double>(cells.size());
}

std::string choice_verdict(const std::vector<ChoiceCell>& cells) {
  const auto in_doubt = std::ranges::count_if(cells, [](const ChoiceCell& cell) {
    return cell.regret() > kClose && cell.surest_regret() <= kClose;
  });
  const std::string doubt =
      in_doubt == 0 ? "" : fmt::format("; {} more may be, by the spread of their blocks", in_doubt);
  return fmt::format("within 10 % of the fastest: {:.0f} % of the sizes{}\n",
                     100 * share_within(cells, kClose), doubt);
}

std::string choice_head() {
  return fmt::format("{:>10}  {:<24} {:>12} {:>12} {:>8}\n", "bytes", "carried by", "model us",
                     "measured us", "ratio");
}

std::string choice_lines(const ChoiceCell& cell) {
  std::string lines = fmt::format(
      "{:>10}  {:<24} {:>12} {:>12.1f} {:>8.2f}  ({:.2f} to {:.2f})\n", size_text(cell.bytes),
      "chosen: " + cell.chosen, "", cell.measured_us, measure::median(cell.ratios),
      measure::quantile(cell.ratios, kLow), measure::quantile(cell.ratios, kHigh));
  for (const ChoiceCell::Candidate& one : cell.candidates)
    lines += fmt::format("{:>10}  {:<24} {:>12.1f} {:>12.1f} {:>8.2f}\n", "", one.algorithm,
                         one.model_us, one.measured_us, one.ratio);
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
                    {"chosen", cell.chosen},
                    {"model_us", model_us_of_chosen(cell)},
                    {"measured_us", cell.measured_us},
                    {"fastest", cell.fastest().algorithm},
                    {"regret", cell.regret()},
                    {"ratio_p10", measure::quantile(cell.ratios, kLow)},
                    {"ratio_p90", measure::quantile(cell.ratios, kHigh)},
                    {"candidates", std::move(candidates)}});
  }
  const Json json = {{"within_10_percent", share_within(cells, kClose)},
                     {"cells", std::move(list)}};
  return json.dump(2) + "\n";
}

}  // namespace paceline::cli
