// Finds the process that started this job here, for launchers that give their jobs no name.
#pragma once

#include <string>

namespace paceline::membership {

// "4711/883201" (process id / start time) of the nearest ancestor whose environment lacks
// `variable`: wrappers such as `bash -c` have it as we do, the launcher that set it has not. Empty
// when /proc does not tell.
std::string process_that_started(const std::string& variable);

}  // namespace paceline::membership
