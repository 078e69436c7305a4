// Describes which ranks share a host, which share processors, and what kind of link two ranks have.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "paceline/core/base/processors.h"

namespace paceline::topology {

enum class LinkClass : std::uint8_t {
  memory,    // both are processes of one host that read each other's memory
  loopback,  // both are on one host and talk through sockets
  network,   // they are on two hosts
};
inline constexpr std::array kLinkClasses = {LinkClass::memory, LinkClass::loopback,
                                            LinkClass::network};
std::string_view name_of(LinkClass link);

// The hosts of some ranks. All messages between two hosts share one port out of the one and one
// port into the other.
struct Topology {
  std::vector<std::vector<int>> hosts;  // the ranks of each, ascending; each rank is on one host
  std::vector<ProcessorPool> pools;     // each rank is in one pool
  LinkClass within_a_host = LinkClass::memory;

  int ranks() const;
  std::vector<int> host_of_ranks() const;  // by rank
  std::vector<int> pool_of_ranks() const;  // by rank
  bool operator==(const Topology&) const = default;
};

// All `ranks` on one host with `cores` cores; or each rank on a host of its own.
Topology one_host(int ranks, int cores, LinkClass link);
Topology separate_hosts(int ranks);
// Host i has `cores[i]` cores of its own.
Topology several_hosts(std::vector<std::vector<int>> hosts, const std::vector<int>& cores,
                       LinkClass within_a_host = LinkClass::memory);

// The topology of a group, by its own ranks: member i is rank `members[i]` of `whole`. REQUIRES:
// each is a rank of `whole`, and none is there twice.
Topology topology_of(const Topology& whole, const std::vector<int>& members);

}  // namespace paceline::topology
