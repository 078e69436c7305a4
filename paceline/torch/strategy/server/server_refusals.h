// Refuses what does not go with parameters on servers.
#pragma once

#include "paceline/core/server/server.h"
#include "paceline/torch/strategy/local/strategy_catalogue.h"

namespace paceline::strategy {

// The job whose servers keep the parameters. THROWS Error (misuse), by name: a job without servers,
// a group that is not all workers, parameters or settings that do not go with them.
Job& job_that_serves(const server::ConsistencyChoice& choice, const StrategyContext& context);

}  // namespace paceline::strategy
