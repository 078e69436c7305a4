// Finds the checkpoint from which a run goes on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/base/disk.h"
#include "paceline/core/checkpoint/checkpoint.h"

namespace paceline::checkpointing {

struct ResumePoint {
  std::optional<std::uint64_t> step = {};  // nothing: no checkpoint is whole
  std::vector<std::string> damaged = {};   // a line for each newer one that is not
};

// The newest step of which every byte verifies. THROWS Error: misuse, the newest was saved by a
// newer Paceline; io, the directory, or a step that is newer than all whole ones, cannot be read
// now. COST: reads the files once.
ResumePoint find_resume_point(Disk& disk, const checkpoint::CheckpointDirectory& directory);

}  // namespace paceline::checkpointing
