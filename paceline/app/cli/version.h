// Which Paceline the command is.
#pragma once

#include "paceline/core/base/version.h"

namespace paceline::cli {

using paceline::kVersion;

}  // namespace paceline::cli
