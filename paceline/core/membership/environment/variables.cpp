#include "paceline/core/membership/environment/variables.h"

#include <fmt/format.h>

#include "paceline/core/base/number.h"

namespace paceline::membership {

Failure senseless(const char* name, std::string_view value, std::string_view must) {
  return {Fault::misuse,
          fmt::format("{}={} makes no sense: it must be {}; {}", name, value, must,
                      std::string_view(name).starts_with("PACELINE_")
                          ? "start workers by `paceline run`, which sets it"
                          : "the launcher sets it: leave it alone"),
          {}};
}

Result<> read_number(const Variables& variables, const char* name, std::int64_t low,
                     std::int64_t high, std::int64_t& into) {
  const char* text = name == nullptr ? nullptr : variables(name);
  if (text == nullptr) return Done{};
  const auto number = number_in<std::int64_t>(text);
  if (!number || *number < low || *number > high)
    return senseless(name, text, fmt::format("a whole number from {} to {}", low, high));
  into = *number;
  return Done{};
}

Result<> read_int(const Variables& variables, const char* name, std::int64_t low, std::int64_t high,
                  int& into) {
  std::int64_t wide = into;
  auto read = read_number(variables, name, low, high, wide);
  into = static_cast<int>(wide);
  return read;
}

}  // namespace paceline::membership
