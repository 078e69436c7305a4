// The version of the command.
#pragma once

#include "paceline/core/base/version.h"

namespace paceline::cli {

using paceline::kVersion;
constexpr const char* kReleased = "2026-11-21";  // the date of man pages

}  // namespace paceline::cli
