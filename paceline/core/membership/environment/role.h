// Reads whether this process is a worker of its job or a server, and how many servers the job has.
#pragma once

#include "paceline/core/membership/environment/environment.h"
#include "paceline/core/membership/environment/launchers.h"

namespace paceline::membership {

// Fills in what a server has in place of a rank, and the number of servers. `names`: the launcher
// that was recognised, or nullptr; only ours starts servers. The failure (misuse) names the
// variable and the remedy.
Result<> read_role(const Variables& variables, const LauncherVariables* names,
                   Environment& environment);

}  // namespace paceline::membership
