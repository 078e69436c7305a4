// DataParallelOptions::aggregate: who averages the gradients.
#pragma once

#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/job/job.h"
#include "paceline/torch/replica/replica.h"

namespace paceline::parallel {

// The job whose servers may average the gradients of these ranks; null: the ranks do it, also under
// "automatic" where servers do not go with the rest. THROWS Error (misuse): a word that is none, or
// under "server" options or ranks with which servers do not go.
Job* job_with_servers(const Communicator& group, Job* job, const DataParallelOptions& options);

// Whether forecasts decide which of both averages.
bool aggregates_by_forecast(const DataParallelOptions& options);

}  // namespace paceline::parallel
