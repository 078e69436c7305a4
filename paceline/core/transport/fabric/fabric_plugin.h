// Finds the shared object of a fabric and loads it (base/plugin.h).
#pragma once

#include <filesystem>
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

// The devices of this host that read and write other hosts' memory (InfiniBand, RoCE, iWARP): those
// with an active port that this process may open, by name ("mlx5_0"), sorted. `root` holds
// the system's sys and dev.
std::vector<std::string> rdma_devices(const std::filesystem::path& root = "/");

}  // namespace paceline::transport
