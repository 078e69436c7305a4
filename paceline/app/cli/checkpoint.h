// `paceline checkpoint`: looks at what runs have saved.
#pragma once

#include "paceline/app/cli/shared/subcommand.h"

namespace paceline::cli {

Subcommand checkpoint();

}  // namespace paceline::cli
