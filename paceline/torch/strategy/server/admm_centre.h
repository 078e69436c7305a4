// Consensus ADMM with the consensus on the job's servers: each rank brings what it contributes after
// so many steps of its own, and goes on when enough others have come too (asynchronous ADMM).
#pragma once

#include <memory>

#include "paceline/core/settings/settings.h"
#include "paceline/torch/strategy/local/local_method.h"
#include "paceline/torch/strategy/local/strategy_catalogue.h"

namespace paceline::strategy {

// `settings`: those of the strategy `admm`. THROWS Error (misuse): the job has no servers, or other
// workers than the group; parameters or options do not go with servers.
std::unique_ptr<LocalMethod> admm_centre(LocalReplica& replica, const StrategyContext& context,
                                         const Settings& settings);

}  // namespace paceline::strategy
