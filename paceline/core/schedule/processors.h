// The processors that ranks share with others of their machine.
#pragma once

#include "paceline/core/collective/communicator.h"

namespace paceline::schedule {

// The processors that ranks of the group share, over these ranks; of all ranks the least.
double processors_of_each(const Communicator& group);

// Seconds that processors have worked for this process.
double worked_seconds();

}  // namespace paceline::schedule
