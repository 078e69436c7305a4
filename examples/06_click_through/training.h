// Trains the model on the ranks of the job, and tells how it goes.
#pragma once

#include "options.h"
#include "paceline/paceline.h"

namespace click_through {

// Returns the exit code: 0, or 143 if the run was told to stop and has saved. THROWS
// paceline::Error.
int train(paceline::Job& job, const RunOptions& options);

}  // namespace click_through
