// A world of ranks inside one process: each rank is a Job to be used by a thread of its own, linked
// to the others through memory that they really share. The same links, frames and programs as
// between processes, without a launcher.
#pragma once

#include <chrono>
#include <vector>

#include "paceline/core/membership/job.h"

namespace paceline {

struct LocalWorldOptions {
  bool share_memory = true;  // false: TCP over loopback
  int ranks_per_host = 0;    // above 0: so many neighbours act as a host, with TCP to the others
  bool reproducible = true;  // the determinism of the world's communicators
  std::chrono::milliseconds operation_timeout = std::chrono::minutes(10);
};

// Job i has rank i. Each must end before the process does; they may be moved to their threads.
std::vector<Job> make_local_world(int world_size, const LocalWorldOptions& options = {});

}  // namespace paceline
