// `paceline simulate survey`: the survey's tables beside the simulator's.
#pragma once

#include "paceline/app/cli/shared/subcommand.h"

namespace paceline::cli {

Subcommand simulate_survey();

}  // namespace paceline::cli
