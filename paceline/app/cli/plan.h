// `paceline plan`: computes, before a run, how to divide a training among ranks.
#pragma once

#include "paceline/app/cli/shared/subcommand.h"

namespace paceline::cli {

Subcommand plan();

}  // namespace paceline::cli
