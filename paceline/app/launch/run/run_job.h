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

// This process is a server of a job, and knows its place from its environment: it joins the job,
// keeps its tables, and returns when all workers have left: the exit code. It ignores the signals
// that the launcher passes on, because workers may need their tables while they save. The launcher
// kills servers that are still there when the run has ended.
int run_server();

}  // namespace paceline::launch
