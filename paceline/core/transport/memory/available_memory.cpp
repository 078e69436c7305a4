#include "paceline/core/transport/memory/available_memory.h"

#include <fstream>
#include <limits>
#include <string>

namespace paceline::transport {

std::size_t available_memory() {
  std::ifstream in("/proc/meminfo");
  std::string name;
  std::size_t kib = 0;
  while (in >> name >> kib) {
    if (name == "MemAvailable:") return kib << 10;
    in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::numeric_limits<std::size_t>::max();
}

}  // namespace paceline::transport
