// Which processors each worker of a host runs on: its own, near each other.
//
// Workers that may all run on any processor wake each other, and the kernel then puts the woken one
// beside the waker: two ranks share a processor while another has nothing to do
// (docs/decisions/0022-workers-are-bound.md).
#pragma once

#include <vector>

#include "paceline/core/base/processors.h"

struct hwloc_topology;

namespace paceline::launch {

// By local rank: this process's processors, each given to one worker, along the machine's packages,
// caches and cores. Empty ones, which bind nobody: of one worker, of more workers than processors,
// and where the machine tells nothing about itself. COST: milliseconds.
std::vector<ProcessorSet> binding(int workers);

// The same of those of `machine`, as hwloc sees it.
std::vector<ProcessorSet> binding(hwloc_topology* machine, int workers);

}  // namespace paceline::launch
