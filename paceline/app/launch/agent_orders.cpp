#include "paceline/app/launch/agent_orders.h"

#include <nlohmann/json.hpp>

namespace paceline::launch {

using nlohmann::json;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(JobVariables, world_size, job, store, transport, determinism,
                                   operation_timeout, master_address, master_port, usable_cores)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AgentOrders, first, count, node_rank, nodes, job, secret,
                                   directory, command, environment)

std::string to_json(const AgentOrders& orders) {
  return json(orders).dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<AgentOrders> parse_orders(const std::string& text) {
  try {
    return json::parse(text).get<AgentOrders>();
  } catch (const json::exception& error) {
    return Failure{Fault::mismatch,
                   std::string("the launcher's orders cannot be read (") + error.what() +
                       "); install the same Paceline on all hosts",
                   {}};
  }
}

}  // namespace paceline::launch
