// `paceline simulate survey`: the survey's tables beside what the simulator makes of them.
#pragma once

#include "paceline/app/cli/shared/subcommand.h"

namespace paceline::cli {

Subcommand simulate_survey();

}  // namespace paceline::cli
