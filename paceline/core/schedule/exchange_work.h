// Exchanges of compressed gradients as operations of a communicator.
#pragma once

#include "paceline/core/collective/communicator.h"
#include "paceline/core/compress/averaging.h"

namespace paceline::schedule {

// Starts it. Its buffers must stay until the Work is done. Collective for all kinds: a rank that
// swaps with nobody starts nothing. THROWS Error as the communicator does.
Work start(Communicator& group, const compress::Exchange& exchange);

}  // namespace paceline::schedule
