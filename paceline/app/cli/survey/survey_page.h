// Writes the results of `paceline simulate survey` as a page: one file, which loads nothing.
#pragma once

#include <string>

#include "paceline/app/cli/survey/survey_report.h"

namespace paceline::cli {

// Throughput over the number of GPUs, measured and simulated, a curve for each method; the tables
// below each. Well-formed XML too.
std::string survey_page(const SurveyRun& run);

}  // namespace paceline::cli
