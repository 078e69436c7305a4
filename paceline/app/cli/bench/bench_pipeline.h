// `paceline bench pipeline`: a pipeline's order on these links, with waiting instead of
// computation.
#pragma once

#include "paceline/app/cli/shared/subcommand.h"

namespace paceline::cli {

Subcommand bench_pipeline();

}  // namespace paceline::cli
