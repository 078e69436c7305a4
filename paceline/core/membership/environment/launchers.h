// The launchers whose workers we recognise, as a table: which variables tell a process its place.
//
// The order decides, the first row whose signs are all there wins: MPI's launchers under Slurm keep
// Slurm's variables, and torchrun under either keeps theirs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/base/result.h"
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

// Finds the process that started this job here, for launchers that give their jobs no name:
// "4711/883201" (process id / start time) of the nearest ancestor whose environment lacks
// `variable`: wrappers such as `bash -c` have it as we do, the launcher that set it has not. Empty
// when /proc does not tell.
std::string process_that_started(const std::string& variable);

// TF_CONFIG: how TensorFlow's cluster managers tell a process its place.
//
//   {"cluster": {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"], "evaluator": ["e:1"]},
//    "task": {"type": "worker", "index": 0}}
//
// Ranks are the chief ("master" in older clusters), then the workers in their order. A parameter
// server ("ps") is a server of the job, which has no rank. An evaluator looks at checkpoints and is
// neither.
struct TfPlace {
  int rank = 0, world_size = 1;        // an evaluator: a world of its own; a server: rank -1
  int servers = 0, server_index = -1;  // below 0: no server
  bool spans_hosts = false;            // ranks and servers are on more than one host
  int local_rank = 0, local_world_size = 1, node_rank = 0;
  std::string first;     // "host:port" of rank 0, which is its to listen on
  std::string identity;  // equal in all processes of the cluster
  bool operator==(const TfPlace&) const = default;
};

// The failure (misuse) names what is wrong in it.
Result<TfPlace> parse_tf_config(std::string_view json);

}  // namespace paceline::membership
