#include "paceline/core/base/plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

namespace paceline {
namespace {

std::string file_of(std::string_view plugin) {
  return fmt::format("libpaceline_{}.so", plugin);
}

}  // namespace

std::vector<std::string> plugin_folders() {
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return {program.parent_path().parent_path() / "lib" / "paceline"};
}

Result<void*> load_plugin(std::string_view plugin, const char* entry, std::string_view built_where,
                          const std::vector<std::string>& folders) {
  const std::string file = file_of(plugin);
  std::vector<std::string> candidates;
  for (const std::string& folder : folders) candidates.push_back(folder + "/" + file);
  candidates.push_back(file);
  void* handle = nullptr;
  std::vector<std::string> reasons;
  for (const std::string& candidate : candidates) {
    // RTLD_GLOBAL is needed because MPI libraries load parts of their own, which look for the
    // library's symbols.
    handle = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (handle != nullptr) break;
    reasons.emplace_back(::dlerror());
  }
  if (handle == nullptr) {
    return Failure{
        Fault::misuse,
        fmt::format("the plugin {} cannot be loaded ({}); it is built where its library's headers "
                    "are found (`{}`, then build again) and installed by "
                    "`cmake --install BUILD --component engines`; LD_LIBRARY_PATH may name its "
                    "folder",
                    file, fmt::join(reasons, "; "), built_where),
        {}};
  }
  return ::dlsym(handle, entry);
}

Failure of_another_version(std::string_view plugin, std::string_view found,
                           std::string_view wanted) {
  return {Fault::misuse,
          fmt::format("the plugin {} belongs to another version of Paceline ('{}', not '{}'): "
                      "build both from the same sources",
                      file_of(plugin), found, wanted),
          {}};
}

}  // namespace paceline
