// The program bench_survey (docs/guide/simulate.md).
#pragma once

#include <string>
#include <vector>

namespace paceline::survey {

// Prints what the options in `arguments` ask for, and returns the exit code. THROWS Error; misuse
// is a usage error.
int survey_main(const std::vector<std::string>& arguments);

}  // namespace paceline::survey
