#include "bench/survey/survey_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace paceline::survey {
namespace {

constexpr double kMargin = .03;

// The orders of the survey that can be asserted.
struct Relation {
  std::string_view first, second;
  bool both_ways;
};
constexpr std::array kRelations = {
    Relation{"WFBP-PS", "WFBP-A2A", false}, Relation{"MG-WFBP", "WFBP-A2A", false},
    Relation{"MG-WFBP", "BSP-A2A", false}, Relation{"WFBP-A2A", "BSP-A2A", true},
    Relation{"WFBP-PS", "BSP-PS", false}};

bool is_in_doubt(const SurveyTable& table, std::string_view network, std::string_view model,
                 std::string_view method, int workers) {
  return (method == "BSP-PS" || method == "WFBP-PS") &&
         is_suspicious(table, network, model, workers);
}

bool is_accepted(const SurveyTable& table, const SurveyRow& row, int workers) {
  if (row.method == "ByteScheduler-A2A" && row.model == "ResNet-50") return false;
  return !is_in_doubt(table, row.network, row.model, row.method, workers);
}

void compare(const SurveyTable& measured, std::span<const SurveyForecast> simulated,
             const Relation& relation, const SurveyRow& first, SurveyOrders& orders) {
  const SurveyRow* second = find(measured, first.network, first.model, relation.second);
  if (second == nullptr) return;
  for (std::size_t i = 0; i < kSurveyWorkers.size(); ++i) {
    const int workers = kSurveyWorkers[i];
    if (is_in_doubt(measured, first.network, first.model, relation.first, workers) ||
        is_in_doubt(measured, first.network, first.model, relation.second, workers))
      continue;
    const double gain = first.samples_per_second[i] / second->samples_per_second[i] - 1;
    if (std::abs(gain) < kMargin || (gain < 0 && !relation.both_ways)) continue;
    const auto of = [&](std::string_view method) {
      return forecast_of(simulated, first.network, first.model, method, workers);
    };
    const double forecast = of(relation.first) / of(relation.second) - 1;
    ++orders.cells;
    if (gain * forecast > 0) {
      ++orders.repeated;
    } else {
      orders.missed.push_back(fmt::format("{} {} {}: {}, {}, {}", relation.first,
                                          gain > 0 ? '>' : '<', relation.second, first.model,
                                          first.network, workers));
    }
  }
}

}  // namespace

double forecast_of(std::span<const SurveyForecast> simulated, std::string_view network,
                   std::string_view model, std::string_view method, int workers) {
  const auto found = std::ranges::find_if(simulated, [&](const SurveyForecast& one) {
    return one.network == network && one.model == model && one.method == method &&
           one.workers == workers;
  });
  return found == simulated.end() ? 0 : found->samples_per_second;
}

SurveyError survey_error(const SurveyTable& measured, std::span<const SurveyForecast> simulated,
                         const SurveyCells& cells) {
  SurveyError error;
  for (const SurveyRow& row : measured) {
    if (row.method.starts_with("BSP-")) continue;
    if (!cells.model.empty() && row.model != cells.model) continue;
    if (!cells.method.empty() && row.method != cells.method) continue;
    for (std::size_t i = 0; i < kSurveyWorkers.size(); ++i) {
      const int workers = kSurveyWorkers[i];
      if (cells.accepted_only && !is_accepted(measured, row, workers)) continue;
      const double forecast = forecast_of(simulated, row.network, row.model, row.method, workers);
      const double off = std::abs(forecast / row.samples_per_second[i] - 1);
      ++error.cells;
      error.mean += off;
      if (off <= error.worst) continue;
      error.worst = off;
      error.worst_cell =
          fmt::format("{} of {} on {} with {}", row.method, row.model, row.network, workers);
    }
  }
  if (error.cells > 0) error.mean /= error.cells;
  return error;
}

SurveyOrders survey_orders(const SurveyTable& measured, std::span<const SurveyForecast> simulated) {
  SurveyOrders orders;
  for (const Relation& relation : kRelations) {
    for (const SurveyRow& row : measured)
      if (row.method == relation.first) compare(measured, simulated, relation, row, orders);
  }
  return orders;
}

}  // namespace paceline::survey
