// A group that an engine carries, of any ranks of the job, whatever carries the world. For the
// doors of plugins, which know their library's own names for groups.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "paceline/core/job/job.h"

namespace paceline::job {

// Every one of the ranks calls it, in the same order. `everywhere`: whether it is called with true
// by all of them. THROWS Error: misuse (no plugin), and what enlist (enlist.h) throws.
std::unique_ptr<Communicator> engine_group(Job& job, std::string_view plugin,
                                           std::span<const int> world_ranks,
                                           const std::function<bool(bool)>& everywhere);

}  // namespace paceline::job
