// Options that `paceline run` and what else starts jobs have in common.
#pragma once

#include <string>

#include "paceline/app/launch/run/run_options.h"

namespace paceline::cli {

// As --transport and --determinism name them. THROWS Error (misuse)
std::string parse_transport(const std::string& text);
// Of a job that is ours to start: not mpi, which wants its own launcher.
std::string parse_own_transport(const std::string& text);
// THROWS Error (misuse) that says what of the plugin, the driver or a device is missing on this
// host.
void check_nccl_is_here();
std::string parse_determinism(const std::string& text);

// --hosts, --hostfile and --ssh.
struct GivenHosts {
  std::string hosts, hostfile, ssh;
};

// Fills options.hosts, options.ssh and, from the hosts, options.processes: as many of them as
// `processes` says (0: every slot). Without hosts nothing changes. THROWS Error (misuse)
void take_hosts(const GivenHosts& given, int processes, launch::RunOptions& options);

}  // namespace paceline::cli
