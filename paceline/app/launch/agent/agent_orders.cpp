#include "paceline/app/launch/agent/agent_orders.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "paceline/app/launch/process/binding.h"
#include "paceline/core/base/version.h"
#include "paceline/core/transport/frame/frame.h"

namespace paceline::launch {

using nlohmann::json;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(JobVariables, world_size, servers, job, generation, max_restarts,
                                   store, transport, determinism, operation_timeout, start_timeout,
                                   port_range, master_address, master_port, usable_cores)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AgentOrders, version, first, count, servers, node_rank, nodes,
                                   job, bind, secret, directory, command, environment)

std::vector<Place> places_of(const AgentOrders& orders) {
  const bool binds = orders.bind && orders.count > 0;
  std::vector<Place> places;
  for (const ProcessorSet& processors :
       binds ? binding(orders.count)
             : std::vector<ProcessorSet>(static_cast<std::size_t>(orders.count))) {
    const int i = static_cast<int>(places.size());
    places.push_back({.rank = orders.first + i,
                      .local_rank = i,
                      .local_world_size = orders.count,
                      .node_rank = orders.node_rank,
                      .nodes = orders.nodes,
                      .processors = processors});
  }
  for (const int server : orders.servers)
    places.push_back({.rank = orders.job.world_size + server,
                      .server = server,
                      .node_rank = orders.node_rank,
                      .nodes = orders.nodes});
  return places;
}

std::string this_version() {
  return fmt::format("{} (wire {})", kVersion, transport::kWireVersion);
}

std::string to_json(const AgentOrders& orders) {
  return json(orders).dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<AgentOrders> parse_orders(const std::string& text) {
  try {
    const std::string launchers = json::parse(text).value("version", "(unknown)");
    if (launchers != this_version())
      return Failure{Fault::mismatch,
                     fmt::format("this host has Paceline {}, the launcher's has {}; install the "
                                 "same Paceline on all hosts",
                                 this_version(), launchers),
                     {}};
    return json::parse(text).get<AgentOrders>();
  } catch (const json::exception& error) {
    return Failure{Fault::mismatch,
                   std::string("the launcher's orders cannot be read (") + error.what() +
                       "); install the same Paceline on all hosts",
                   {}};
  }
}

}  // namespace paceline::launch
