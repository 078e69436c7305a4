#include "paceline/app/launch/run/placement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "paceline/app/launch/hosts/hosts.h"
#include "paceline/app/launch/process/program.h"
#include "paceline/app/launch/process/visible_devices.h"
#include "paceline/core/base/check.h"
#include "paceline/core/base/processors.h"
#include "paceline/core/membership/environment/variables.h"
#include "paceline/core/transport/socket/resolve.h"

namespace paceline::launch {
namespace {

bool over_nodes(const RunOptions& options) {
  return options.nodes.nodes > 1;
}

std::vector<HostShare> shares_of(const RunOptions& options) {
  if (!over_nodes(options))
    return options.hosts.empty() ? std::vector{HostShare{host_name(), 0, options.processes}}
                                 : options.hosts;
  std::vector<HostShare> shares;
  for (int node = 0; node < options.nodes.nodes; ++node) {
    shares.push_back({fmt::format("node {}", node), node * options.processes, options.processes});
  }
  return shares;
}

std::string bracketed(const std::string& host) {
  return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

// Our address as that host sees it, taken from the route to it.
std::string route_to(const std::string& host) {
  const auto address = transport::resolve_tcp_address(bracketed(host) + ":0");
  if (!address)
    throw_misuse(fmt::format(
        "host {}: {} (or give --store ADDRESS:0, an address of this host that it reaches)", host,
        address.error().what));
  return transport::source_address_to(address.value().host);
}

bool chosen(const std::string& host) {
  return host != RunOptions().store_host;
}

// The host by this name, which is added where no rank is on it.
PlacedHost& host_named(const std::string& name, int world_size, std::vector<PlacedHost>& hosts) {
  const bool here = is_this_host(name);
  const auto found = std::ranges::find_if(hosts, [&](const PlacedHost& host) {
    return host.share.name == name || (here && host.here);
  });
  if (found != hosts.end()) return *found;
  return hosts.emplace_back(PlacedHost{.share = {name, world_size, 0}, .here = here});
}

// Servers go in turn to the slots of their own hosts, or else to the workers' hosts.
void place_servers(const RunOptions& options, int world_size, std::vector<PlacedHost>& hosts) {
  std::vector<std::string> turns;
  for (const HostSlots& host : options.server_hosts)
    turns.insert(turns.end(), static_cast<std::size_t>(host.slots), host.name);
  const std::size_t own = hosts.size();
  for (int server = 0; server < options.servers; ++server) {
    const auto turn = static_cast<std::size_t>(server);
    PlacedHost& host = turns.empty() ? hosts[turn % own]
                                     : host_named(turns[turn % turns.size()], world_size, hosts);
    host.servers.push_back(server);
  }
}

std::vector<PlacedHost> hosts_of(const RunOptions& options, int& world_size) {
  std::vector<PlacedHost> hosts;
  for (const HostShare& share : shares_of(options)) {
    const bool here =
        over_nodes(options) ? share.first == 0 : options.hosts.empty() || is_this_host(share.name);
    hosts.push_back({.share = share, .here = here});
    world_size += share.count;
  }
  place_servers(options, world_size, hosts);
  return hosts;
}

}  // namespace

Placement place(const RunOptions& options) {
  Placement result;
  std::vector<std::string> seen;  // our addresses as other hosts see them
  result.hosts = hosts_of(options, result.world_size);
  for (PlacedHost& host : result.hosts) {
    if (host.here) continue;
    host.store_host = over_nodes(options)          ? options.nodes.endpoint.host
                      : chosen(options.store_host) ? options.store_host
                                                   : route_to(host.share.name);
    seen.push_back(host.store_host);
  }
  const bool one_address =
      std::ranges::all_of(seen, [&](const std::string& a) { return a == seen.front(); });
  const std::string here_seen = seen.empty() ? options.store_host : seen.front();
  result.listen_host = seen.empty() || one_address ? here_seen : "0.0.0.0";
  for (PlacedHost& host : result.hosts) {
    if (host.here) host.store_host = here_seen;
  }
  const PlacedHost& first = result.hosts.front();
  result.master_address = first.here ? first.store_host : first.share.name;
  return result;
}

AgentOrders orders_for(const RunOptions& options, const Placement& placement,
                       const JobVariables& job, std::size_t index) {
  const PlacedHost& host = placement.hosts.at(index);
  const auto has_ranks = [](const PlacedHost& one) { return one.share.count > 0; };
  AgentOrders orders{.first = host.share.first,
                     .count = host.share.count,
                     .servers = host.servers,
                     .node_rank = static_cast<int>(index),
                     .nodes = static_cast<int>(std::ranges::count_if(placement.hosts, has_ranks)),
                     .job = job,
                     .bind = options.bind,
                     .environment = options.passed};
  const auto port = job.store.substr(job.store.rfind(':'));
  orders.job.store = bracketed(host.store_host) + port;
  if (over_nodes(options)) return orders;
  orders.directory = current_folder().value();
  orders.command = options.command;
  const Environment settings = settings_in(own_environment());
  orders.environment.insert(orders.environment.begin(), settings.begin(), settings.end());
  return orders;
}

std::string shared_replicas(const RunOptions& options, const Placement& placement) {
  for (const PlacedHost& host : placement.hosts) {
    const std::set<int> here(host.servers.begin(), host.servers.end());
    for (const int server : here)
      for (int next = 1; next < options.replicas; ++next)
        if (here.contains((server + next) % options.servers))
          return fmt::format(
              "paceline: host {} has several replicas of one range of a table "
              "(--replicas {}), there are not enough hosts for others\n",
              host.share.name, options.replicas);
  }
  return {};
}

// The variables that workers are known to find beforehand; here also the devices that are shown.
Environment known_variables(const RunOptions& options, bool here) {
  Environment known;
  for (const std::string& entry : here ? own_environment() : Environment())
    if (entry.starts_with(fmt::format("{}=", kVisibleDevices))) known.push_back(entry);
  for (const std::string& entry : options.passed) set_variable(known, entry);
  return known;
}

// The command and the variables of a host's first rank.
std::string describe_ranks(const RunOptions& options, const AgentOrders& orders, bool here) {
  std::vector<std::string> command;
  for (const std::string& word : options.command) command.push_back(shell_word(word));
  std::string text = fmt::format("  command: {}\n  environment of rank {}:\n",
                                 fmt::join(command, " "), orders.first);
  const ProcessPlace first{.rank = orders.first,
                           .local_rank = 0,
                           .local_world_size = orders.count,
                           .node_rank = orders.node_rank,
                           .nodes = orders.nodes};
  for (const std::string& entry :
       worker_environment(known_variables(options, here), orders.job, first))
    text += "    " + entry + "\n";
  return text + fmt::format("    {}=(a file that only the worker's user can read)\n",
                            membership::variable::kSecretFile);
}

// "ranks 0-3, server 1"
std::string whom_it_has(const PlacedHost& host) {
  std::vector<std::string> parts;
  const int last = host.share.first + host.share.count - 1;
  if (host.share.count > 0) parts.push_back(fmt::format("ranks {}-{}", host.share.first, last));
  if (!host.servers.empty())
    parts.push_back(fmt::format("server{} {}", host.servers.size() == 1 ? "" : "s",
                                fmt::join(host.servers, ", ")));
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string describe(const RunOptions& options, const Placement& placement) {
  const JobVariables job{
      .world_size = placement.world_size,
      .servers = options.servers,
      .replicas = options.replicas,
      .job = "(chosen at the start)",
      .store = fmt::format("HOST:{}", options.store_port == 0 ? "(any free port)"
                                                              : std::to_string(options.store_port)),
      .transport = options.transport,
      .device_transport = options.device_transport,
      .devices = options.devices,
      .ranks_per_device = options.ranks_per_device,
      .determinism = options.determinism,
      .operation_timeout = options.operation_timeout,
      .master_address = placement.master_address,
      .usable_cores = usable_cores()};
  const std::string own = std::filesystem::read_symlink("/proc/self/exe").string();
  std::string text = fmt::format(
      "{} ranks{} on {} host{}; the store listens on {}\n", placement.world_size,
      options.servers > 0 ? fmt::format(" and {} servers", options.servers) : "",
      placement.hosts.size(), placement.hosts.size() == 1 ? "" : "s", placement.listen_host);
  text += shared_replicas(options, placement);
  for (std::size_t i = 0; i < placement.hosts.size(); ++i) {
    const PlacedHost& host = placement.hosts[i];
    text += fmt::format("\nhost {}: {}\n", host.share.name, whom_it_has(host));
    if (over_nodes(options) && !host.here)
      text += "  started by: its own `paceline run --node-rank`\n";
    else if (!host.here)
      text += fmt::format("  started by: {} {} {} run --as-agent\n", fmt::join(options.ssh, " "),
                          host.share.name, own);
    if (!host.servers.empty()) text += fmt::format("  servers: {} run --as-server\n", own);
    if (host.share.count > 0)
      text += describe_ranks(options, orders_for(options, placement, job, i), host.here);
  }
  return text;
}

}  // namespace paceline::launch
