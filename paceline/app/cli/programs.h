// `paceline programs`: the catalogue of collectives to look at: listed, shown, drawn, proven.
#pragma once

#include "paceline/app/cli/shared/subcommand.h"

namespace paceline::cli {

Subcommand programs();

}  // namespace paceline::cli
