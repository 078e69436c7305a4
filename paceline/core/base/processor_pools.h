// Groups ranks that share processors. Containers and network namespaces look like hosts but may
// share processors, and ranks of one host may have separate ones.
#pragma once

#include <span>
#include <vector>

#include "paceline/core/base/processors.h"

namespace paceline {

struct ProcessorPool {
  std::vector<int> ranks;  // ascending
  double processors = 1;   // what they have together

  bool is_crowded() const { return static_cast<double>(ranks.size()) > processors; }
  // The number of ranks that can run at a time.
  int cores() const { return processors < 2 ? 1 : static_cast<int>(processors); }
  bool operator==(const ProcessorPool&) const = default;
};

// Forms the pools from the processors that each rank may use. Each rank is in one pool, and pools
// are in the order of their first ranks. Two ranks share a pool if they are on one machine and may
// run on the same processor or have the quota of the same control group, directly or through other
// ranks. A pool has all processors that one of its ranks may run on, but no more than the sum of
// their quotas.
std::vector<ProcessorPool> pools_of(std::span<const Processors> ranks);

}  // namespace paceline
