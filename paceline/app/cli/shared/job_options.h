// Options that `paceline run` shares with the other subcommands that start jobs.
#pragma once

#include <string>

#include "paceline/app/launch/run/run_options.h"

namespace paceline::cli {

// Checks the values of --transport and --determinism. THROWS Error (misuse)
std::string parse_transport(const std::string& text);
// Checks the transport of a job that Paceline starts: mpi is excluded, because it needs its own
// launcher.
std::string parse_own_transport(const std::string& text);
// Whether NCCL is to carry the job's buffers on devices, by either option or by their variables.
bool wants_nccl(const launch::RunOptions& options);
// THROWS Error (misuse) if the transports of the run contradict each other.
void check_device_transport(const launch::RunOptions& options);
// THROWS Error (misuse) that says which is missing on this host: the plugin, the driver or a
// device.
void check_nccl_is_here();
std::string parse_determinism(const std::string& text);

// --hosts, --hostfile and --ssh.
struct GivenHosts {
  std::string hosts, hostfile, ssh;
  bool has_server_hosts = false;  // --ssh reaches these too
};

// Fills options.hosts, options.ssh and options.processes: `processes` of the hosts' slots (0: every
// slot). Without hosts nothing changes. THROWS Error (misuse)
void take_hosts(const GivenHosts& given, int processes, launch::RunOptions& options);

// --servers, --server-hosts, --replicas and --server-restarts: processes of this command that keep
// tables for the workers.
struct GivenServers {
  std::string servers, hosts, replicas = {}, restarts = {};
};

// Fills the options of servers, after the job's own hosts, nodes and transport.
// THROWS Error (misuse) that names the option and the remedy.
void take_servers(const GivenServers& given, launch::RunOptions& options);

}  // namespace paceline::cli
