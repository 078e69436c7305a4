// serve(): what a server process of a job runs (docs/guide/server.md).
#pragma once

#include "paceline/core/job/job.h"

namespace paceline {

// Keeps the tables that the workers declare, sums what they push (schedule/path/push_pull.h), and
// returns when all workers have left the job in order. `paceline run --servers` starts processes
// that run it; a program that may be started in either role calls it where job.role() is
// Role::server. THREAD: any but the driver; it blocks. THROWS Error: misuse (this process is a
// worker), and what has ended the generation, such as peer_lost.
void serve(Job& job);

}  // namespace paceline
