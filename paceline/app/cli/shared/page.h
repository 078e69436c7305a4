// The frame of every page that the command writes: one file, light or dark, which loads nothing.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace paceline::cli {

// `facts`: what was measured where, name and value. `body`: markup, below them; cells of
// its tables that are no numbers have the class "text".
std::string page(const std::string& title,
                 const std::vector<std::pair<std::string, std::string>>& facts,
                 const std::string& body);

}  // namespace paceline::cli
