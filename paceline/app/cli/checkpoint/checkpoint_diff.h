// `paceline checkpoint diff`: in what two steps differ.
#pragma once

#include "paceline/app/cli/shared/subcommand.h"

namespace paceline::cli {

Subcommand checkpoint_diff();

}  // namespace paceline::cli
