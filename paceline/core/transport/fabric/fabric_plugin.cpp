#include "paceline/core/transport/fabric/fabric_plugin.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace paceline::transport {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> entries(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    found.push_back(entry->path());
  return found;
}

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

bool has_active_port(const fs::path& device) {
  return std::ranges::any_of(entries(device / "ports"), [](const fs::path& port) {
    return first_line(port / "state").ends_with("ACTIVE");
  });
}

}  // namespace

Result<FabricLibrary*> load_fabric(std::string_view plugin,
                                   const std::vector<std::string>& folders) {
  auto found = describe_plugin<FabricEntry>(
      plugin, {kFabricEntry, kFabricInterface, "scripts/setup"}, folders);
  if (!found) return found.error();
  return found->library;
}

std::vector<std::string> rdma_devices(const fs::path& root) {
  std::vector<std::string> names;
  for (const fs::path& verbs : entries(root / "sys/class/infiniband_verbs")) {
    const std::string name = first_line(verbs / "ibdev");
    const auto opened_by = root / "dev/infiniband" / verbs.filename();
    if (name.empty() || ::access(opened_by.c_str(), R_OK | W_OK) != 0) continue;
    if (has_active_port(root / "sys/class/infiniband" / name)) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace paceline::transport
