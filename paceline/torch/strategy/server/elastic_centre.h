// Elastic averaging with a centre on the job's servers: each rank exchanges with it after so many
// steps of its own, and waits for no other rank.
#pragma once

#include <memory>

#include "paceline/core/settings/settings.h"
#include "paceline/torch/strategy/local/local_method.h"
#include "paceline/torch/strategy/local/strategy_catalogue.h"

namespace paceline::strategy {

// `settings`: those of the strategy `elastic`. THROWS Error (misuse): the job has no servers, or
// other workers than the group; parameters or options do not go with servers.
std::unique_ptr<LocalMethod> elastic_centre(LocalReplica& replica, const StrategyContext& context,
                                            const Settings& settings);

}  // namespace paceline::strategy
