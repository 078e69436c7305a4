// Decides where each part of a run is placed before anything is started, so that --dry-run can show
// it.
#pragma once

#include <string>
#include <vector>

#include "paceline/app/launch/run/run_options.h"

namespace paceline::launch {

struct PlacedHost {
  HostShare share;                // no ranks: it has servers alone
  std::vector<int> servers = {};  // which, counted from 0
  bool here = true;               // this process starts its workers; else an agent does
  std::string store_host = {};    // our address as this host sees it
};

struct Placement {
  std::vector<PlacedHost> hosts;  // in the order of node ranks
  int world_size = 0;             // ranks
  std::string listen_host;        // the store's
  std::string master_address;     // rank 0's host
};

// THROWS Error (misuse): a host cannot be resolved, and nothing else tells how it reaches us. COST:
// may ask the network.
Placement place(const RunOptions& options);

// The orders for host number `index`, without the secret.
AgentOrders orders_for(const RunOptions& options, const Placement& placement,
                       const JobVariables& job, std::size_t index);

// The line about a host that has several servers which keep the same range of a table (--replicas);
// empty: they are on different hosts.
std::string shared_replicas(const RunOptions& options, const Placement& placement);

// The text that --dry-run prints: each host, its ranks, the command, the variables of its first
// rank.
std::string describe(const RunOptions& options, const Placement& placement);

}  // namespace paceline::launch
