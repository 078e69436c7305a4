// The launcher's part on another host: starts the workers there, tells what they do, and ends them
// when the launcher is gone.
//
// Over ssh it is `paceline run --as-agent`, with the launcher at its stdin and stdout; with
// --nnodes it is the user's own `paceline run` on that node, connected to the launcher of node 0.
// When the agent reads end of file from the launcher, it kills everything, so no orphan is left
// when ssh, the network or the launcher dies.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "paceline/core/membership/handshake/secret.h"
#include "paceline/core/transport/socket/file_descriptor.h"

namespace paceline::launch {

struct AgentOptions {
  transport::FileDescriptor input, output;        // from and to the launcher
  std::vector<std::string> command = {};          // empty: the orders name it
  std::optional<membership::Secret> secret = {};  // empty: the orders hold it
};

// Returns the run's exit code; 1 when the launcher went away. REQUIRES one thread, and descriptors
// 0, 1 and 2 open.
int run_agent(AgentOptions options);

}  // namespace paceline::launch
