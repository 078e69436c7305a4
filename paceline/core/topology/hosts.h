// Which ranks share a host, and what kind of link any two of them have.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace paceline::topology {

enum class LinkClass : std::uint8_t {
  memory,    // both are processes of one host that read each other's memory
  loopback,  // both are on one host and talk through sockets
  network,   // on two hosts
};
inline constexpr std::array kLinkClasses = {LinkClass::memory, LinkClass::loopback,
                                            LinkClass::network};
std::string_view name_of(LinkClass link);

// The hosts of some ranks. All messages between two hosts share one port out of the one and one
// port into the other.
struct Topology {
  std::vector<std::vector<int>> hosts;  // their ranks, ascending; each rank is on one of them
  std::vector<int> cores;               // by host
  LinkClass within_a_host = LinkClass::memory;

  int ranks() const;
  std::vector<int> host_of_ranks() const;  // by rank
  // Whether some host has more ranks than cores.
  bool is_crowded(int host) const {
    const auto h = static_cast<std::size_t>(host);
    return hosts[h].size() > static_cast<std::size_t>(cores[h]);
  }
  bool operator==(const Topology&) const = default;
};

// `ranks` on one host; each on a host of its own.
Topology one_host(int ranks, int cores, LinkClass link);
Topology separate_hosts(int ranks);

// The members of a group, as ranks of the group: member i is rank `members[i]` of `whole`.
// REQUIRES: each is a rank of `whole`, and none is there twice.
Topology topology_of(const Topology& whole, const std::vector<int>& members);

}  // namespace paceline::topology
