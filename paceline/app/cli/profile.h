// `paceline profile`: runs a training program, and keeps the model of its steps as a file.
#pragma once

#include "paceline/app/cli/shared/subcommand.h"

namespace paceline::cli {

Subcommand profile();

}  // namespace paceline::cli
