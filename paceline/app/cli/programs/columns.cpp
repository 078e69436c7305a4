#include "paceline/app/cli/programs/columns.h"

#include <fmt/format.h>

#include <algorithm>

namespace paceline::cli {

std::string in_columns(const std::vector<std::vector<std::string>>& lines,
                       const std::vector<std::size_t>& right) {
  std::vector<std::size_t> widths(lines.empty() ? 0 : lines.front().size());
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const auto& line : lines) {
    std::string row;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const bool is_right = std::ranges::find(right, i) != right.end();
      row += is_right ? fmt::format("{:>{}}  ", line[i], widths[i])
                      : fmt::format("{:<{}}  ", line[i], widths[i]);
    }
    text += row.substr(0, row.find_last_not_of(' ') + 1) + '\n';
  }
  return text;
}

}  // namespace paceline::cli
