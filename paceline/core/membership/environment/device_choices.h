// Reads what the environment says of devices: what carries their buffers, and how ranks share them.
#pragma once

#include "paceline/core/membership/environment/environment.h"

namespace paceline::membership {

// Fills in the device transport, and the engine where that is NCCL, after the transport between
// ranks was read. The failure (misuse) names the variable and the remedy, or the two that
// contradict each other.
Result<> read_device_transport(const Variables& variables, Environment& environment);

// How many neighbouring ranks of a host share a device: the rank with number r among those of its
// host has device r / N. 0: nobody said. The failure (misuse) names the variable.
Result<int> ranks_per_device(const Variables& variables);
Result<int> ranks_per_device();  // of this process

}  // namespace paceline::membership
