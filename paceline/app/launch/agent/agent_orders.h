// The launcher's orders to its agent on another host: a value, sent as JSON.
#pragma once

#include <string>
#include <vector>

#include "paceline/app/launch/process/environment.h"
#include "paceline/core/base/result.h"

namespace paceline::launch {

// "1.2.0 (wire 4)"
std::string this_version();

struct AgentOrders {
  std::string version = this_version();  // of Paceline and its wire
  int first = 0, count = 0;              // ranks
  std::vector<int> servers = {};         // which servers, counted from 0
  int node_rank = 0, nodes = 1;
  JobVariables job = {};
  bool bind = true;                       // workers to processors of their own
  std::string secret = {};                // hexadecimal; empty: the agent has it, from its own user
  std::string directory = {};             // working directory; empty: the agent's
  std::vector<std::string> command = {};  // empty: the agent's own
  Environment environment = {};           // added to what the host has
  bool operator==(const AgentOrders&) const = default;
};

// The places of this host's workers, then of its servers.
std::vector<Place> places_of(const AgentOrders& orders);

std::string to_json(const AgentOrders& orders);
// Fails (mismatch) when the orders come from another version of Paceline.
Result<AgentOrders> parse_orders(const std::string& json);

}  // namespace paceline::launch
