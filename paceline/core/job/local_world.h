// A world of ranks inside one process: each rank is a Job to be used by a thread of its own, linked
// to the others through memory that they really share. The same links, frames and programs as
// between processes, without a launcher.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "paceline/core/job/job.h"
#include "paceline/core/transport/link/link.h"

namespace paceline {

struct LocalWorldOptions {
  int servers = 0;           // beside the ranks
  bool share_memory = true;  // false: TCP over loopback
  int ranks_per_host = 0;    // above 0: this many neighbours act as a host, with TCP to others
  double processors = 0;     // that the ranks believe to share; 0: those of this machine
  bool reproducible = true;  // the determinism of the world's communicators
  std::chrono::milliseconds operation_timeout = std::chrono::minutes(10);
  std::chrono::milliseconds stall_time = std::chrono::seconds(5);
  // Makes what takes the place of a rank's link to a peer, such as one that fails on purpose;
  // empty: links stay as they are.
  std::function<std::unique_ptr<transport::Link>(int rank, int peer,
                                                 std::unique_ptr<transport::Link> link)>
      through = {};
};

// Job i has rank i; the servers' jobs follow. Each must end before the process does; they may be
// moved to their threads.
std::vector<Job> make_local_world(int world_size, const LocalWorldOptions& options = {});

}  // namespace paceline
