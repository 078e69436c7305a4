// Runs a program as a job, on this host and others: from the first fork to the exit code.
#pragma once

#include "paceline/app/launch/run/run_options.h"

namespace paceline::launch {

// Returns the launcher's exit code; all texts have been written to stderr by then.
// THROWS Error: io when the job cannot be started at all (no free port, no more processes or
// descriptors). REQUIRES a process with one thread, and descriptors 0, 1 and 2 open.
int run(const RunOptions& options);

// Prints what run() would start where, and starts nothing.
void dry_run(const RunOptions& options);

}  // namespace paceline::launch
