#include "paceline/core/settings/named_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "paceline/core/base/suggestion.h"

namespace paceline {

Failure unknown_name(std::string_view kind, std::string_view name,
                     const std::vector<std::string>& known) {
  return {Fault::misuse,
          fmt::format("there is no {} '{}'; there are {}{}", kind, name, fmt::join(known, ", "),
                      suggestion(name, known)),
          {}};
}

}  // namespace paceline
