// `paceline simulate pipeline`: a pipeline's order in virtual time.
#pragma once

#include "paceline/app/cli/shared/subcommand.h"

namespace paceline::cli {

Subcommand simulate_pipeline();

}  // namespace paceline::cli
