// Carries out exchanges of compressed gradients as operations of a communicator.
#pragma once

#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/compress/averaging/averaging.h"

namespace paceline::schedule {

// Starts the exchange. Its buffers must stay valid until the Work is done. Collective for all
// kinds: a rank that swaps with no other starts nothing. THROWS Error as the communicator does.
Work start(Communicator& group, const compress::Exchange& exchange);

}  // namespace paceline::schedule
