#include "paceline/core/transport/memory/available_memory.h"

#include <fmt/format.h>

#include <cstdint>
#include <fstream>
#include <limits>

#include "paceline/core/base/control_groups.h"

namespace paceline::transport {

std::size_t available_memory(const std::filesystem::path& root) {
  std::ifstream in(root / "proc/meminfo");
  std::string name;
  std::size_t kib = 0;
  while (in >> name >> kib) {
    if (name == "MemAvailable:") return kib << 10;
    in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::numeric_limits<std::size_t>::max();
}

std::string MemoryBound::text() const {
  if (limit.empty()) return fmt::format("{} MiB of memory are available", bytes >> 20);
  return fmt::format("{} lets it have {} MiB", limit.string(), bytes >> 20);
}

// "max" is no number, and version 1 says "no limit" by one that is larger than any memory.
MemoryBound memory_bound(const std::filesystem::path& root) {
  MemoryBound least{available_memory(root)};
  for (const ControlGroup& group : control_groups("memory", root)) {
    const auto file = group.folder / (group.is_unified ? "memory.max" : "memory.limit_in_bytes");
    std::uint64_t bytes = 0;
    if (std::ifstream(file) >> bytes && bytes < least.bytes)
      least = {bytes, file.lexically_normal()};
  }
  return least;
}

}  // namespace paceline::transport
