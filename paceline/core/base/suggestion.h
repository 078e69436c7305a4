// "did you mean ...?"
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace paceline {

// "; did you mean --grace?" for the candidate that is only a few letters away; empty when none is.
std::string suggestion(std::string_view wrong, const std::vector<std::string>& candidates);

}  // namespace paceline
