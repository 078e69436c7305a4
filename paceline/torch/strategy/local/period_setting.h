// The setting of strategies that exchange something after each so many steps.
#pragma once

#include <string_view>

#include "paceline/core/settings/settings.h"

namespace paceline::strategy {

inline Setting period_setting(double standard, std::string_view meaning) {
  return {.name = "period",
          .standard = standard,
          .least = 1,
          .most = 1e9,
          .meaning = meaning,
          .whole = true};
}

}  // namespace paceline::strategy
