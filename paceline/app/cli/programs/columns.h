// Lays out cells in columns.
#pragma once

#include <string>
#include <vector>

namespace paceline::cli {

// A line of text for each line of cells, in columns as wide as they need; those of the numbers
// `right` end at the right. REQUIRES: all lines have as many cells.
std::string in_columns(const std::vector<std::vector<std::string>>& lines,
                       const std::vector<std::size_t>& right);

}  // namespace paceline::cli
