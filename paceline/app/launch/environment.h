// The environment of a worker (design: names.md): its place in the job, torchrun's names beside
// ours, and nothing left of a launcher above us.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace paceline::launch {

// As in environ: "NAME=value".
using Environment = std::vector<std::string>;

// What is the same for all workers of a job. Empty settings are left as inherited.
struct JobVariables {
  int world_size = 1;
  std::string job = {};    // its id
  std::string store = {};  // "host:port"
  std::string transport = {};
  std::string determinism = {};
  std::string operation_timeout = {};
  int master_port = 0;  // a free port, for programs that open torch's own store
  int usable_cores = 1;
};

// PACELINE_SECRET_FILE is the shim's to add: its process id is part of it.
Environment worker_environment(const Environment& inherited, const JobVariables& job, int rank);

// Whether a variable tells a worker of some launcher its place (PACELINE_RANK,
// OMPI_COMM_WORLD_RANK, SLURM_PROCID, ...), or tells `paceline run` its options. Settings of the
// job such as PACELINE_TRANSPORT or PACELINE_LOG are neither.
bool is_a_launchers(std::string_view name);

Environment own_environment();
// As getenv, in a value. Empty: not set.
std::string_view value_of(const Environment& environment, std::string_view name);

}  // namespace paceline::launch
