// Finds and loads the shared object of a plugin, so that core links none of the libraries that
// plugins need.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/base/result.h"

namespace paceline {

// The folders searched before the dynamic linker is asked (which knows LD_LIBRARY_PATH and the
// program's RUNPATH): ../lib/paceline beside the program.
std::vector<std::string> plugin_folders();

// Returns the function `entry` of libpaceline_<plugin>.so, which stays loaded, or nullptr if it has
// none. The failure (misuse) lists the places searched and the remedy, which begins with
// `built_where`: how to get the plugin's library. THREAD: any.
Result<void*> load_plugin(std::string_view plugin, const char* entry, std::string_view built_where,
                          const std::vector<std::string>& folders);

// The failure for a plugin that was built with version `found` while this build needs `wanted`.
Failure of_another_version(std::string_view plugin, std::string_view found,
                           std::string_view wanted);

}  // namespace paceline
