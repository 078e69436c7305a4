// The cost of each entry of a timetable, for a given length, on given hosts, at given prices.
#pragma once

#include <cstddef>
#include <vector>

#include "paceline/core/collective/price/timetable.h"
#include "paceline/core/collective/program/partition.h"
#include "paceline/core/topology/topology.h"

namespace paceline::collective {

// The cost of a message, in seconds.
struct LinkCharge {
  topology::LinkClass link = topology::LinkClass::memory;
  double sender = 0;    // of the sender's port (network) or core
  double receiver = 0;  // of the receiver's
  double uplink = 0;    // of both hosts' ports; network only
  double wake = 0;      // until the receiver is let run, once the message is there
  bool is_empty = false;
};

class PriceTable {
 public:
  // All outlive it.
  PriceTable(const Partition& piece, std::size_t element_bytes, const topology::Topology& topology,
             const topology::Profile& profile);

  LinkCharge of(const Timetable::Message& message) const;
  double of(const Timetable::Work& work) const;  // of the rank's core
  // The time for which the most wanted port or core is busy: no program can end sooner.
  double busiest(const Timetable& table) const;

  const topology::Topology& topology() const { return topology_; }
  int host(int rank) const { return host_of_[static_cast<std::size_t>(rank)]; }
  // The core of a rank, numbered over all hosts. The ranks that share processors stay on one each,
  // in turns: waking a rank on another one takes longer than most operations.
  int core(int rank) const { return core_of_[static_cast<std::size_t>(rank)]; }
  int cores() const { return cores_; }

 private:
  double bytes_of(int chunk) const {
    return static_cast<double>(piece_.chunks[static_cast<std::size_t>(chunk)].count *
                               element_bytes_);
  }

  const Partition& piece_;
  const std::size_t element_bytes_;
  const topology::Topology& topology_;
  const topology::Profile& profile_;
  const std::vector<int> host_of_;
  std::vector<int> core_of_;
  std::vector<bool> is_crowded_;  // by rank
  int cores_ = 0;
};

}  // namespace paceline::collective
