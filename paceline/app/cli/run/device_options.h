// The options of `paceline run` that say which devices the ranks of a host have, and what carries
// buffers in their memory.
#pragma once

#include <string>

#include "paceline/app/launch/launch.h"

namespace paceline::cli {

// The values are as the user wrote them.
struct GivenDevices {
  std::string devices, ranks_per_device, transport;
};

// Fills the run's devices, its ranks for each and its device transport, after its transport.
// `counted`: the user has said how many processes there are; otherwise --devices does, by one for
// each or --ranks-per-device. THROWS Error (misuse) that names the option and the remedy.
void take_devices(const GivenDevices& given, bool counted, launch::RunOptions& options);

// Whether the processes of each host fit to its devices, after the run's processes, hosts and
// nodes. THROWS Error (misuse) as above.
void check_devices(const launch::RunOptions& options);

// Whether this host shows the devices. THROWS Error (misuse)
void check_devices_here(const launch::RunOptions& options);

}  // namespace paceline::cli
