// Finds the shared object of an engine and loads it (base/plugin.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/base/plugin.h"
#include "paceline/core/collective/engine/engine.h"

namespace paceline::collective {

// "mpi_openmpi" -> libpaceline_mpi_openmpi.so. Stays loaded. The failure (misuse) tells where it
// was looked for, and the remedy. THREAD: any.
Result<EngineLibrary*> load_engine(std::string_view plugin,
                                   const std::vector<std::string>& folders = plugin_folders());

}  // namespace paceline::collective
