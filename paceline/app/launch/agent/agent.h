// The launcher's part on another host: starts the workers there, tells what they do, and ends them
// when the launcher is gone.
//
// Over ssh it is `paceline run --as-agent`, with the launcher at its stdin and stdout; with
// --nnodes it is the user's own `paceline run` on that node, connected to the one of node 0. End of
// file from the launcher kills everything: so no orphan is left when ssh, the network or the
// launcher dies.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "paceline/core/membership/secret.h"
#include "paceline/core/transport/file_descriptor.h"

namespace paceline::launch {

struct AgentOptions {
  transport::FileDescriptor input, output;        // from and to the launcher
  std::vector<std::string> command = {};          // empty: as ordered
  std::optional<membership::Secret> secret = {};  // empty: as ordered
};

// Returns the run's exit code; 1 when the launcher went away. REQUIRES one thread, and descriptors
// 0, 1 and 2 open.
int run_agent(AgentOptions options);

}  // namespace paceline::launch
