// `paceline simulate`: what schedules would take, in virtual time.
#pragma once

#include "paceline/app/cli/subcommand.h"

namespace paceline::cli {

Subcommand simulate();

}  // namespace paceline::cli
