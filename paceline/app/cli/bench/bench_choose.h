// `paceline bench choose`: whether the algorithms that the model chooses are the fastest.
#pragma once

#include "paceline/app/cli/shared/subcommand.h"

namespace paceline::cli {

Subcommand bench_choose();

}  // namespace paceline::cli
