// Suggests a name for a misspelt one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace paceline {

// Returns "; did you mean --grace?" for a candidate that is only a few letters away, else an empty
// string.
std::string suggestion(std::string_view wrong, const std::vector<std::string>& candidates);

}  // namespace paceline
