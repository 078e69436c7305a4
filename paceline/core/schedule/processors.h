// The processors that ranks share with others of their machine.
#pragma once

#include "paceline/core/collective/communicator.h"

namespace paceline::schedule {

// Collective: processors of this rank's machine over the group's ranks there; of all ranks the
// least. Ranks share a machine where they share a kernel, whatever hosts their network shows.
double processors_of_each(Communicator& group);

// Seconds that processors have worked for this process.
double worked_seconds();

}  // namespace paceline::schedule
