// What `paceline simulate survey` tells, as a page to look at: one file, nothing from elsewhere.
#pragma once

#include <string>

#include "paceline/app/cli/survey/survey_report.h"

namespace paceline::cli {

// Throughput over the number of GPUs, measured and simulated, a curve for each method; the tables
// below each. Well-formed XML too.
std::string survey_page(const SurveyRun& run);

}  // namespace paceline::cli
