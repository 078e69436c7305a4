// Finds the shared object of a plugin and loads it, so that core itself links none of the libraries
// that plugins stand on.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/base/result.h"

namespace paceline {

// Where plugins are looked for before the dynamic linker is asked (which knows LD_LIBRARY_PATH and
// the program's RUNPATH): ../lib/paceline beside the program.
std::vector<std::string> plugin_folders();

// The function `entry` of libpaceline_<plugin>.so, which stays loaded; nullptr when it has none.
// The failure (misuse) tells where it was looked for, and the remedy, which begins with
// `built_where`: how the plugin's library is got. THREAD: any.
Result<void*> load_plugin(std::string_view plugin, const char* entry, std::string_view built_where,
                          const std::vector<std::string>& folders);

// Of a plugin that says it was built with `found` where `wanted` is this build's.
Failure of_another_version(std::string_view plugin, std::string_view found,
                           std::string_view wanted);

}  // namespace paceline
