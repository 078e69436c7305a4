// `paceline plan pipeline`: stages, replicas, micro-batches, time and memory, from a profile.
#pragma once

#include "paceline/app/cli/shared/subcommand.h"

namespace paceline::cli {

Subcommand plan_pipeline();

}  // namespace paceline::cli
