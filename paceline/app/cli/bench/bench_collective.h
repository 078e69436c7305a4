// `paceline bench collective`: how long collectives take.
#pragma once

#include "paceline/app/cli/shared/subcommand.h"

namespace paceline::cli {

Subcommand bench_collective();

}  // namespace paceline::cli
