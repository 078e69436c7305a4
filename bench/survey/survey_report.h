// The output of bench_survey: the seed's tables and figures, measured and simulated.
#pragma once

#include <string>
#include <vector>

#include "bench/survey/survey_check.h"

namespace paceline::survey {

struct SurveyRun {
  SurveyTable measured;
  std::vector<SurveyForecast> simulated;
};

// A statement of the survey with a figure or a count of cells, and the simulation's figure for it.
struct SurveyClaim {
  std::string text, survey, simulated;
};
std::vector<SurveyClaim> survey_claims(const SurveyRun& run);

// Throughputs of a network and a model: a line for each method, three cells for each number of
// workers: measured, simulated, error in per cent.
struct SurveyFigure {
  struct Cell {
    double measured = 0, simulated = 0;  // samples a second; 0: not known
    std::string error() const;           // "+3.1", or empty
  };
  struct Line {
    std::string method;
    std::vector<Cell> cells;  // by kSurveyWorkers
  };
  std::string network, model;
  std::vector<Line> lines;  // the seven, then General
};
std::vector<SurveyFigure> survey_figures(const SurveyRun& run);

// "102 cells, mean 5.5 %, worst 22.5 % (ByteScheduler-PS of ...)"
std::string to_string(const SurveyError& error);

std::string survey_text(const SurveyRun& run);
// Rows {"network","model","method","workers","samples_per_second"}.
std::string survey_json(const SurveyRun& run);

}  // namespace paceline::survey
