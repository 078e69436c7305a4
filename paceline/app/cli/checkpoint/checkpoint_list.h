// `paceline checkpoint ls`: the committed steps of a run.
#pragma once

#include "paceline/app/cli/shared/subcommand.h"

namespace paceline::cli {

Subcommand checkpoint_list();

}  // namespace paceline::cli
