// `paceline doctor`: what this host offers to a run, and what to do about what it does not.
#pragma once

#include "paceline/app/cli/shared/subcommand.h"

namespace paceline::cli {

Subcommand doctor();

}  // namespace paceline::cli
