// `paceline profile`: runs a training program, and writes the model of its steps to a file.
#pragma once

#include "paceline/app/cli/shared/subcommand.h"

namespace paceline::cli {

Subcommand profile();

}  // namespace paceline::cli
