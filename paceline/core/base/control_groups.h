// Finds the control groups (cgroups) that limit this process, of both versions that the kernel has.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace paceline {

struct ControlGroup {
  std::filesystem::path folder;  // of its files
  bool is_unified = false;       // version 2
};

// The groups whose limits on `controller` ("cpu", "memory") hold for this process: its own and all
// above it, the highest first, as far as they can be seen here. They are read from a tree of files
// as Linux has it below `root`; tests make their own tree.
std::vector<ControlGroup> control_groups(std::string_view controller,
                                         const std::filesystem::path& root = "/");

}  // namespace paceline
