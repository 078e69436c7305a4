// `paceline bench server`: how fast the servers of a job are, beside the workers' own all_reduce.
#pragma once

#include "paceline/app/cli/shared/subcommand.h"

namespace paceline::cli {

Subcommand bench_server();

}  // namespace paceline::cli
