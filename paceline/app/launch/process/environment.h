// The environment of a worker (docs/guide/launch.md): its place in the job, torchrun's names beside
// ours, and nothing left of a launcher above us.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/base/processors.h"

namespace paceline::launch {

// Entries "NAME=value", as in environ.
using Environment = std::vector<std::string>;

// The variables that are the same for all workers of a job. Empty settings are left as inherited.
struct JobVariables {
  int world_size = 1;
  int servers = 0;       // beside the workers
  int replicas = 1;      // servers that keep each range of a table
  std::string job = {};  // its id
  int generation = 1;    // counts the starts of the job
  int max_restarts = 0;
  std::string store = {};  // "host:port"
  std::string transport = {};
  std::string device_transport = {};
  std::vector<std::string> devices = {};  // of each host's ranks (visible_devices.h); empty: all
  int ranks_per_device = 0;               // neighbours that share one; 0: they take them in turn
  std::string determinism = {};
  std::string operation_timeout = {};
  std::string start_timeout = {};
  std::string port_range = {};
  // Rank 0's host, for programs that open torch's own store.
  std::string master_address = "127.0.0.1";
  int master_port = 0;  // a port that is probably free there
  int usable_cores = 1;
  bool operator==(const JobVariables&) const = default;
};

// One process's place in the job. Servers have no rank: their numbers follow the workers' ranks.
struct ProcessPlace {
  int rank = 0;                              // the number of the member
  std::optional<int> server = {};            // which server it is; nothing: a worker
  int local_rank = 0, local_world_size = 1;  // among those on its host
  int node_rank = 0, nodes = 1;              // its host's number, and how many hosts there are
  ProcessorSet processors = {};              // where it runs; empty: as the launcher
};

// A server gets no rank and none of torchrun's names. The shim adds PACELINE_SECRET_FILE, because
// that path contains the shim's process id. THROWS Error (misuse): a device is not among those
// that the environment shows.
Environment worker_environment(const Environment& inherited, const JobVariables& job,
                               const ProcessPlace& place);

void set_variable(Environment& environment, const std::string& entry);  // "NAME=value"

// Whether a variable tells a worker of some launcher its place (PACELINE_RANK,
// OMPI_COMM_WORLD_RANK, SLURM_PROCID, ...), or tells `paceline run` its options. Settings of the
// job such as PACELINE_TRANSPORT or PACELINE_LOG are neither.
bool is_a_launchers(std::string_view name);

// Whether a variable tells glibc's malloc what to do with freed memory.
bool is_memory_policy(std::string_view name);

Environment own_environment();

// The settings that a job has on all its hosts: PACELINE_* that are no launcher's, OMP_NUM_THREADS,
// and what malloc does.
Environment settings_in(const Environment& environment);

// Looks a variable up as getenv does. Empty when it is not set.
std::string_view value_of(const Environment& environment, std::string_view name);

}  // namespace paceline::launch
