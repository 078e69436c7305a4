// `paceline doctor`: tests what this host offers to a run, and names a remedy for each defect.
#pragma once

#include "paceline/app/cli/shared/subcommand.h"

namespace paceline::cli {

Subcommand doctor();

}  // namespace paceline::cli
