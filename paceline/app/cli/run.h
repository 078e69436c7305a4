// `paceline run`: starts a program as a job on this host.
#pragma once

#include "paceline/app/cli/shared/subcommand.h"

namespace paceline::cli {

Subcommand run();

}  // namespace paceline::cli
