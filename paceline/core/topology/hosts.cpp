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

Topology one_host(int ranks, int cores, LinkClass link) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return {.hosts = {std::move(all)}, .cores = {cores}, .within_a_host = link};
}

Topology separate_hosts(int ranks) {
  Topology topology;
  for (int rank = 0; rank < ranks; ++rank) topology.hosts.push_back({rank});
  topology.cores.assign(static_cast<std::size_t>(ranks), 1);
  return topology;
}

Topology topology_of(const Topology& whole, const std::vector<int>& members) {
  const std::vector<int> host_of = whole.host_of_ranks();
  std::vector<int> place(whole.hosts.size(), -1);  // by host of the whole: which one it is here
  Topology part{.within_a_host = whole.within_a_host};
  for (std::size_t member = 0; member < members.size(); ++member) {
    const auto host = static_cast<std::size_t>(host_of[static_cast<std::size_t>(members[member])]);
    if (place[host] < 0) {
      place[host] = static_cast<int>(part.hosts.size());
      part.hosts.emplace_back();
      part.cores.push_back(whole.cores[host]);
    }
    part.hosts[static_cast<std::size_t>(place[host])].push_back(static_cast<int>(member));
  }
  return part;
}

}  // namespace paceline::topology
