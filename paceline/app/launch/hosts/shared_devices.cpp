#include "paceline/app/launch/hosts/shared_devices.h"

#include <fmt/format.h>

#include <fstream>

namespace paceline::launch {

bool mps_is_running(const std::filesystem::path& proc) {
  // The kernel keeps 15 characters of nvidia-cuda-mps-control.
  constexpr std::string_view kName = "nvidia-cuda-mps";
  std::error_code error;
  for (std::filesystem::directory_iterator entry(proc, error), end; !error && entry != end;
       entry.increment(error)) {
    std::string name;
    std::getline(std::ifstream(entry->path() / "comm"), name);
    if (name == kName) return true;
  }
  return false;
}

std::string devices_text(int devices, bool by_mps) {
  const std::string count = fmt::format("{} device{}", devices, devices == 1 ? "" : "s");
  if (by_mps)
    return count + "; nvidia-cuda-mps-control runs, so that ranks on one device work side by side";
  return count +
         "; ranks on one device take turns of about 2 ms, since nvidia-cuda-mps-control is not "
         "seen here: `nvidia-cuda-mps-control -d` before a run with --ranks-per-device lets them "
         "work side by side";
}

}  // namespace paceline::launch
