// Tells how much memory the system can still give, and how much this process may have.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace paceline::transport {

// Bytes that the kernel takes to be available without swapping; unlimited where it does not say.
// A process that takes more than this may be given it, and be killed when it writes there. The
// files of the kernel are read below `root`; tests make their own.
std::size_t available_memory(const std::filesystem::path& root = "/");

// The most bytes that this process can have, and what sets that limit.
struct MemoryBound {
  std::size_t bytes = 0;
  std::filesystem::path limit = {};  // the file of a control group; empty: the machine's memory

  // "64 MiB of memory are available", "/sys/fs/cgroup/job/memory.max lets it have 64 MiB"
  std::string text() const;
};

// The smaller of available_memory() and the limits of the process's control group and of those
// above it (containers have one). What the group's processes use already is not taken off.
MemoryBound memory_bound(const std::filesystem::path& root = "/");

}  // namespace paceline::transport
