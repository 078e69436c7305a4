// --servers and --server-hosts: processes of this command that keep tables for the workers.
#pragma once

#include <string>

#include "paceline/app/launch/run/run_options.h"

namespace paceline::cli {

struct GivenServers {
  std::string servers, hosts;
};

// Fills options.servers and options.server_hosts, after the job's own hosts, nodes and transport.
// THROWS Error (misuse) that names the option and the remedy.
void take_servers(const GivenServers& given, launch::RunOptions& options);

}  // namespace paceline::cli
