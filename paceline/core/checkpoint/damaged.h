// The failure of a file that is not as it was written.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "paceline/core/base/result.h"

namespace paceline::checkpoint {

inline Failure damaged(const std::string& path, std::string_view found) {
  return {Fault::io, fmt::format("{} is damaged: {}", path, found), {}};
}

}  // namespace paceline::checkpoint
