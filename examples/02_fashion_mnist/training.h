// The training itself, and its end.
#pragma once

#include "options.h"
#include "paceline/core/job/job.h"

// Trains as the options say; rank 0 prints the results. Returns the exit code: 0, or 143 when the
// run was stopped by SIGTERM after a checkpoint. THROWS paceline::Error.
int train(paceline::Job& job, const Options& options);
