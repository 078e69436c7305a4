// Compares a simulation of the survey with the measurements (docs/guide/simulate.md).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/survey/survey.h"

namespace paceline::survey {

struct SurveyError {
  int cells = 0;
  double mean = 0, worst = 0;  // |simulated / measured - 1| of the throughput
  std::string worst_cell = {};
};

// The measured cells that an error counts. Cells of BSP are never counted: they are the
// calibration.
struct SurveyCells {
  std::string_view model = {}, method = {};  // empty: all
  // Leaves out the cells that acceptance excludes (docs/guide/simulate.md): PS rows that are
  // suspicious, and ByteScheduler-A2A of ResNet-50.
  bool accepted_only = true;
};
SurveyError survey_error(const SurveyTable& measured, std::span<const SurveyForecast> simulated,
                         const SurveyCells& cells = {});

// Pairs of methods whose measured throughput differs by 3 % or more, in cells that can be trusted;
// 74 of the built-in table.
struct SurveyOrders {
  int cells = 0, repeated = 0;           // those that the simulation orders alike
  std::vector<std::string> missed = {};  // "MG-WFBP > WFBP-A2A: ResNet-50, 100GbIB, 32"
};
SurveyOrders survey_orders(const SurveyTable& measured, std::span<const SurveyForecast> simulated);

// 0 when there is none.
double forecast_of(std::span<const SurveyForecast> simulated, std::string_view network,
                   std::string_view model, std::string_view method, int workers);

}  // namespace paceline::survey
