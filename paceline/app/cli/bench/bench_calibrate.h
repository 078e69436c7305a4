// `paceline bench calibrate`: measures the costs of links and cores here, as a profile.
#pragma once

#include "paceline/app/cli/shared/subcommand.h"

namespace paceline::cli {

Subcommand bench_calibrate();

}  // namespace paceline::cli
