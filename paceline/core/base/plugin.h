// Finds and loads the shared object of a plugin, so that core links none of the libraries that
// plugins need.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>
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

// The function of a plugin that describes it, by a value that names its `interface`.
struct PluginEntry {
  const char* function;
  std::string_view interface;    // the version that this build needs
  std::string_view built_where;  // as load_plugin
};

// Loads a plugin and returns its description, for as long as the process. Entry: the type of its
// function. A plugin without one, or of another version, is a failure (misuse), as one that is
// missing is. THREAD: any.
template <typename Entry>
Result<std::invoke_result_t<Entry>> describe_plugin(std::string_view plugin,
                                                    const PluginEntry& entry,
                                                    const std::vector<std::string>& folders) {
  auto symbol = load_plugin(plugin, entry.function, entry.built_where, folders);
  if (!symbol) return symbol.error();
  const auto describe = reinterpret_cast<Entry>(*symbol);
  std::invoke_result_t<Entry> found = {};
  if (describe != nullptr) found = describe();
  if (found.interface != entry.interface)
    return of_another_version(plugin, found.interface, entry.interface);
  return found;
}

}  // namespace paceline
