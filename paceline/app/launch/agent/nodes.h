// One launcher runs on each node, without ssh (--nnodes, as in torchrun): the launcher of node 0
// leads, and the others are its agents.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "paceline/app/launch/agent/remote_workers.h"
#include "paceline/core/membership/handshake/secret.h"
#include "paceline/core/transport/socket/socket.h"

namespace paceline::launch {

struct NodeOptions {
  int nodes = 1, node_rank = 0;
  int processes = 1;                    // on each node: the same on all
  transport::TcpAddress endpoint = {};  // where node 0 listens
  std::string id = "default";           // the job's; it tells two jobs at one endpoint apart
  std::optional<membership::Secret> secret = {};
  Clock::duration patience = std::chrono::minutes(5);  // --start-timeout
  Clock::duration stall = std::chrono::seconds(5);     // a wait of this length is told
};

using Resolver = std::function<Result<transport::TcpAddress>(const std::string& text)>;

// The numeric address of "host:port". A name that nobody knows yet is asked for again until the
// deadline, which is told on stderr: containers and pods get their names shortly after their start.
// THROWS Error (misuse).
transport::TcpAddress find_endpoint(const std::string& text, Deadline deadline,
                                    const Resolver& resolve);

// Waits on node 0 until these nodes have connected; a node that leaves while others are awaited may
// come again. Returns them by node rank; none of them once `is_given_up` says so, which is asked
// after every event and at `ask_at`. THROWS Error: timed_out names the missing nodes; mismatch: two
// launchers have one node rank; misuse: the endpoint is not this host's.
std::map<int, AgentChannel> await_nodes(const NodeOptions& options, const std::set<int>& wanted,
                                        transport::Poller& poller,
                                        const std::function<bool()>& is_given_up, Deadline ask_at);

// Connects the launcher of another node to node 0. THROWS Error: timed_out, refused (another secret
// or id), mismatch (another version).
transport::FileDescriptor join_node_0(const NodeOptions& options,
                                      Deadline deadline = Deadline::never());

}  // namespace paceline::launch
