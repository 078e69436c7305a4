// `paceline bench`: measurements, each a subcommand of its own.
#pragma once

#include "paceline/app/cli/shared/subcommand.h"

namespace paceline::cli {

Subcommand bench();

}  // namespace paceline::cli
