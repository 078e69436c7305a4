// These functions read environment variables that must be whole numbers, and name those that are
// not.
#pragma once

#include <cstdint>
#include <string_view>

#include "paceline/core/membership/environment/environment.h"

namespace paceline::membership {

inline constexpr std::int64_t kMostRanks = 1 << 20;

// The failure (misuse) names the variable, its value, what it must be and who sets it.
Failure senseless(const char* name, std::string_view value, std::string_view must);

// Leaves `into` as it is where the variable is not set, or `name` is nullptr.
Result<> read_number(const Variables& variables, const char* name, std::int64_t low,
                     std::int64_t high, std::int64_t& into);
Result<> read_int(const Variables& variables, const char* name, std::int64_t low, std::int64_t high,
                  int& into);

}  // namespace paceline::membership
