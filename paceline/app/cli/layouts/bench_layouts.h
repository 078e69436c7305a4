// `paceline bench layouts`: runs a training program once for each layout, and compares them.
#pragma once

#include "paceline/app/cli/shared/subcommand.h"

namespace paceline::cli {

Subcommand bench_layouts();

}  // namespace paceline::cli
