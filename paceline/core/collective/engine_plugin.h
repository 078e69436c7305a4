// Finds the shared object of an engine and loads it, so that core itself links none of those
// libraries.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/collective/engine.h"

namespace paceline::collective {

// Where plugins are looked for before the dynamic linker is asked (which knows LD_LIBRARY_PATH and
// the program's RUNPATH): ../lib/paceline beside the program.
std::vector<std::string> engine_folders();

// "mpi_openmpi" -> libpaceline_mpi_openmpi.so. Stays loaded. The failure (misuse) tells where it
// was looked for, and the remedy. THREAD: any.
Result<EngineLibrary*> load_engine(std::string_view plugin,
                                   const std::vector<std::string>& folders = engine_folders());

}  // namespace paceline::collective
