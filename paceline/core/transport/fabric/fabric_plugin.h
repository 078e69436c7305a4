// Finds the shared object of a fabric and loads it (base/plugin.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/base/plugin.h"
#include "paceline/core/transport/fabric/fabric.h"

namespace paceline::transport {

// "ucx" -> libpaceline_ucx.so. Stays loaded. The failure (misuse) tells where it was looked for,
// and the remedy. THREAD: any.
Result<FabricLibrary*> load_fabric(std::string_view plugin,
                                   const std::vector<std::string>& folders = plugin_folders());

}  // namespace paceline::transport
