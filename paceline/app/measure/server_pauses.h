// How long workers stand still when a server of their job is killed (docs/server/replication.md).
#pragma once

#include <cstddef>

#include "paceline/core/job/job.h"

namespace paceline::measure {

struct PauseOptions {
  std::size_t bytes = 4 << 20;  // of the table
  double kill_every = 1;        // seconds
  double seconds = 10;          // that workers push and pull
};

struct PauseFigures {
  int kills = 0;
  double steps_per_second = 0;  // of one worker: a push of all bytes, and a pull
  double undisturbed = 0;       // the longest time of a step before the first kill, in seconds
  double longest = 0;           // of all steps and workers
  double median = 0;            // of the longest steps after each kill, on rank 0
};

// Workers train a table under asp. Rank 0 kills a server of its own host every `kill_every` seconds
// with SIGKILL, once each range has all its replicas again. Collective; the same on all workers.
// REQUIRES: a job with replicas. THROWS Error: what Table throws.
PauseFigures pauses_of_workers(Job& job, const PauseOptions& options);

}  // namespace paceline::measure
