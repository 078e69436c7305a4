// Makes the Synchrony out of the text that a user gives, DataParallelOptions::synchrony.
#pragma once

#include "paceline/core/collective/collective.h"
#include "paceline/torch/replica/replica.h"

namespace paceline::strategy {

// Makes the one that options.synchrony names; see MakeSynchrony. THROWS Error (misuse): there is
// none of this name, or its settings fit neither it, nor the model, the options or the number of
// ranks.
replica::MadeSynchrony make_synchrony(const replica::ModelParts& parts, Communicator& group,
                                      Job* job, const DataParallelOptions& options);

}  // namespace paceline::strategy
