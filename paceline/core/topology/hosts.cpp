#include "paceline/core/topology/hosts.h"

#include <numeric>

namespace paceline::topology {

std::string_view name_of(LinkClass link) {
  switch (link) {
    case LinkClass::memory: return "memory";
    case LinkClass::loopback: return "loopback";
    case LinkClass::network: return "network";
  }
  return "unknown";
}

int Topology::ranks() const {
  std::size_t count = 0;
  for (const auto& host : hosts) count += host.size();
  return static_cast<int>(count);
}

std::vector<int> Topology::host_of_ranks() const {
  std::vector<int> host_of(static_cast<std::size_t>(ranks()));
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    for (const int rank : hosts[host])
      host_of[static_cast<std::size_t>(rank)] = static_cast<int>(host);
  }
  return host_of;
}

std::vector<int> Topology::pool_of_ranks() const {
  std::vector<int> pool_of(static_cast<std::size_t>(ranks()));
  for (std::size_t pool = 0; pool < pools.size(); ++pool) {
    for (const int rank : pools[pool].ranks)
      pool_of[static_cast<std::size_t>(rank)] = static_cast<int>(pool);
  }
  return pool_of;
}

Topology several_hosts(std::vector<std::vector<int>> hosts, const std::vector<int>& cores,
                       LinkClass within_a_host) {
  Topology topology{.hosts = std::move(hosts), .within_a_host = within_a_host};
  for (std::size_t host = 0; host < topology.hosts.size(); ++host)
    topology.pools.push_back({topology.hosts[host], static_cast<double>(cores[host])});
  return topology;
}

Topology one_host(int ranks, int cores, LinkClass link) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return several_hosts({std::move(all)}, {cores}, link);
}

Topology separate_hosts(int ranks) {
  std::vector<std::vector<int>> hosts;
  for (int rank = 0; rank < ranks; ++rank) hosts.push_back({rank});
  return several_hosts(std::move(hosts), std::vector<int>(static_cast<std::size_t>(ranks), 1));
}

Topology topology_of(const Topology& whole, const std::vector<int>& members) {
  const std::vector<int> host_of = whole.host_of_ranks(), pool_of = whole.pool_of_ranks();
  // For each host and pool of the whole: its index in the part.
  std::vector<int> hosts(whole.hosts.size(), -1), pools(whole.pools.size(), -1);
  Topology part{.within_a_host = whole.within_a_host};
  for (std::size_t member = 0; member < members.size(); ++member) {
    const auto rank = static_cast<std::size_t>(members[member]);
    const auto host = static_cast<std::size_t>(host_of[rank]),
               pool = static_cast<std::size_t>(pool_of[rank]);
    if (hosts[host] < 0) {
      hosts[host] = static_cast<int>(part.hosts.size());
      part.hosts.emplace_back();
    }
    if (pools[pool] < 0) {
      pools[pool] = static_cast<int>(part.pools.size());
      part.pools.push_back({{}, whole.pools[pool].processors});
    }
    part.hosts[static_cast<std::size_t>(hosts[host])].push_back(static_cast<int>(member));
    part.pools[static_cast<std::size_t>(pools[pool])].ranks.push_back(static_cast<int>(member));
  }
  return part;
}

}  // namespace paceline::topology
