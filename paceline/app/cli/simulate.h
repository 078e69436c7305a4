// `paceline simulate`: computes how long schedules would take, in virtual time.
#pragma once

#include "paceline/app/cli/shared/subcommand.h"

namespace paceline::cli {

Subcommand simulate();

}  // namespace paceline::cli
