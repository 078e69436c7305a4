// `paceline top`: the ranks of this host, live.
#pragma once

#include "paceline/app/cli/shared/subcommand.h"

namespace paceline::cli {

Subcommand top();

}  // namespace paceline::cli
