// Ranks that share processors: containers and network namespaces look like hosts and may share
// them, and ranks of one host may be kept apart.
#pragma once

#include <span>
#include <vector>

#include "paceline/core/base/processors.h"

namespace paceline {

struct ProcessorPool {
  std::vector<int> ranks;  // ascending
  double processors = 1;   // that they have in all

  bool is_crowded() const { return static_cast<double>(ranks.size()) > processors; }
  // How many of them can run at a time.
  int cores() const { return processors < 2 ? 1 : static_cast<int>(processors); }
  bool operator==(const ProcessorPool&) const = default;
};

// From what each rank may use; each rank is in one pool, and pools come by their first ranks. Two
// ranks are in one where they are on one machine and may run on the same processor or have their
// quota of the same control group, themselves or by way of others. A pool has all processors that
// one of its ranks may run on, no more than their quotas in all.
std::vector<ProcessorPool> pools_of(std::span<const Processors> ranks);

}  // namespace paceline
