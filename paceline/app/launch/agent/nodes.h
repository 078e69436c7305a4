// One launcher on each node, without ssh (--nnodes, as torchrun has it): the launcher of node 0
// leads, the others are its agents.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "paceline/app/launch/agent/remote_workers.h"
#include "paceline/core/membership/secret.h"
#include "paceline/core/transport/socket.h"

namespace paceline::launch {

struct NodeOptions {
  int nodes = 1, node_rank = 0;
  int processes = 1;                    // on each node: the same on all
  transport::TcpAddress endpoint = {};  // where node 0 listens
  std::string id = "default";           // of the job: two jobs at one endpoint are told apart
  std::optional<membership::Secret> secret = {};
  Clock::duration patience = std::chrono::minutes(10);
};

// On node 0: returns when all others have come, in the order of their node ranks. THROWS Error:
// timed_out names the missing, mismatch two launchers of one node rank, misuse an endpoint that is
// not this host's.
std::vector<AgentChannel> await_nodes(const NodeOptions& options);

// On the others: the connection to node 0. THROWS Error: timed_out, refused (another secret or id).
transport::FileDescriptor join_node_0(const NodeOptions& options);

}  // namespace paceline::launch
