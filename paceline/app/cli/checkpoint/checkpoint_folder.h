// Finds the checkpoints that a command's argument names.
#pragma once

#include <string>
#include <vector>

#include "paceline/core/base/disk.h"
#include "paceline/core/checkpoint/checkpoint.h"

namespace paceline::cli {

struct FoundStep {
  std::uint64_t step = 0;
  std::string directory;
};

// The committed steps of a run's directory, in ascending order, or the one that `path` itself is.
// THROWS Error (misuse), with the remedy, if there is none.
std::vector<FoundStep> steps_in(Disk& disk, const std::string& path);

// The newest of them.
FoundStep step_in(Disk& disk, const std::string& path);

// The manifest of a step. THROWS Error (io; misuse of a newer version).
checkpoint::Manifest manifest_of(Disk& disk, const FoundStep& step);

// The bytes of all files that a manifest lists.
std::uint64_t bytes_in(const checkpoint::Manifest& manifest);

}  // namespace paceline::cli
