// `paceline doctor` says this of devices that several processes use at once.
#pragma once

#include <filesystem>
#include <string>

namespace paceline::launch {

// Whether the daemon of NVIDIA's MPS is among the processes that are seen in `proc`. With it the
// processes on a device work side by side.
bool mps_is_running(const std::filesystem::path& proc = "/proc");

// How many devices there are, and what it costs where ranks share one.
std::string devices_text(int devices, bool by_mps);

}  // namespace paceline::launch
