// `paceline bench schedule`: measures the gain of schedules on these links.
#pragma once

#include "paceline/app/cli/shared/subcommand.h"

namespace paceline::cli {

Subcommand bench_schedule();

}  // namespace paceline::cli
