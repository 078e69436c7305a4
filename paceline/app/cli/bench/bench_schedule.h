// `paceline bench schedule`: what schedules gain on these links.
#pragma once

#include "paceline/app/cli/shared/subcommand.h"

namespace paceline::cli {

Subcommand bench_schedule();

}  // namespace paceline::cli
