// `paceline checkpoint verify`: compares every byte with its checksum.
#pragma once

#include "paceline/app/cli/shared/subcommand.h"

namespace paceline::cli {

Subcommand checkpoint_verify();

}  // namespace paceline::cli
