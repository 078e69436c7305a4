// The output of `paceline plan pipeline`.
#pragma once

#include <string>

#include "paceline/core/plan/plan.h"

namespace paceline::cli {

struct PlanRun {
  std::string profile;  // the file
  plan::PlanQuestion question;
  plan::PlanReport report;
};

// The pipelines beside data parallelism, the stages of the quickest, and the expectation.
std::string plan_text(const PlanRun& run);

// One object: "expected", "data_parallel", "pipelines", each with its stages and their memory.
std::string plan_json(const PlanRun& run);

}  // namespace paceline::cli
