// `paceline bench`: measurements, each of which is a subcommand of its own.
#pragma once

#include "paceline/app/cli/shared/subcommand.h"

namespace paceline::cli {

Subcommand bench();

}  // namespace paceline::cli
