// The processors that ranks share with others of their machine.
#pragma once

#include "paceline/core/membership/job.h"

namespace paceline::measure {

// Collective: processors of this rank's machine over the ranks there; of all ranks the least. Ranks
// share a machine where they share a kernel, whatever hosts their network shows.
double processors_of_each(Job& job);

// Seconds that processors have worked for this process.
double worked_seconds();

}  // namespace paceline::measure
