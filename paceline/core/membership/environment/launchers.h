// The launchers whose workers we recognise, as a table: which variables tell a process its place.
//
// The order decides, the first row whose signs are all there wins: MPI's launchers under Slurm keep
// Slurm's variables, and torchrun under either keeps theirs.
#pragma once

#include <span>
#include <vector>

#include "paceline/core/membership/environment/environment.h"

namespace paceline::membership {

struct LauncherVariables {
  const char* launcher;  // for texts
  const char *rank, *world_size;
  const char *local_rank = nullptr, *local_world_size = nullptr,
             *node_rank = nullptr;  // nullptr: it does not tell
  const char* restarts = nullptr;
  const char* mpi = nullptr;  // the MPI library that it starts programs of
  // Slurm writes "2(x3),1". It is for a launcher without local_world_size.
  const char* tasks_per_node = nullptr;
  std::vector<const char*> signs;  // set in every worker of this launcher
  // Together unlike any other job's on this host, equal in all ranks.
  std::vector<const char*> identity;
};

const std::vector<LauncherVariables>& launchers();

// The row that fits; nullptr: nobody started us as a worker. TF_CONFIG is no row: it is one
// variable for everything.
const LauncherVariables* recognise(const Variables& variables);

// Tells where rank 0's store is to be found by ranks on other hosts, as this launcher's variables
// tell.
Result<Meeting> find_meeting(const Variables& variables);

}  // namespace paceline::membership
