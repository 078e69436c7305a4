// `paceline checkpoint show`: the content of one step.
#pragma once

#include "paceline/app/cli/shared/subcommand.h"

namespace paceline::cli {

Subcommand checkpoint_show();

}  // namespace paceline::cli
