// Gives each worker of a host processors of its own, which lie near each other.
//
// When all workers may run on any processor, the kernel puts a worker that another one wakes beside
// the waker: two ranks then share a processor while another is idle
// (docs/decisions/0022-workers-are-bound.md).
#pragma once

#include <vector>

#include "paceline/core/base/processors.h"

struct hwloc_topology;

namespace paceline::launch {

// Divides this process's processors among the workers along the machine's packages, caches and
// cores; the result is indexed by local rank. The sets are empty, and bind nobody, for one worker,
// for more workers than processors, and when the machine's topology is unknown. COST: milliseconds.
std::vector<ProcessorSet> binding(int workers);

// Divides the processors of `machine`, as hwloc sees it, in the same way.
std::vector<ProcessorSet> binding(hwloc_topology* machine, int workers);

}  // namespace paceline::launch
