// Writes the measurements of `paceline bench collective` as a page: one file, which loads nothing.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "paceline/app/cli/bench/collective_report.h"

namespace paceline::cli {

// Time and bus bandwidth over the length, a curve for each algorithm and the yardstick, and all
// rows below. `facts`: what was measured where, name and value. Well-formed XML too.
std::string collective_page(const std::string& title,
                            const std::vector<std::pair<std::string, std::string>>& facts,
                            const std::vector<CollectiveRow>& rows);

}  // namespace paceline::cli
