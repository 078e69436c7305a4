// The devices of this host that read and write other hosts' memory: InfiniBand, RoCE, iWARP.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace paceline::transport {

// Those with an active port that this process may open, by name ("mlx5_0"), sorted. `root` holds
// the system's sys and dev.
std::vector<std::string> rdma_devices(const std::filesystem::path& root = "/");

}  // namespace paceline::transport
