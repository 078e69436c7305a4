// Writes the results of bench_survey as a page: one file, which loads nothing.
#pragma once

#include <string>

#include "bench/survey/survey_report.h"

namespace paceline::survey {

// Throughput over the number of GPUs, measured and simulated, a curve for each method; the tables
// below each. Well-formed XML too.
std::string survey_page(const SurveyRun& run);

}  // namespace paceline::survey
