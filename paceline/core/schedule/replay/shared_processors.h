// The processors of a rank, which it shares with other ranks of its machine.
#pragma once

#include "paceline/core/collective/group/communicator.h"

namespace paceline::schedule {

// The processors of a pool over the ranks that share it, for the pool in which this is least.
double processors_of_each(const Communicator& group);

// Processor seconds that this process has used.
double worked_seconds();

}  // namespace paceline::schedule
