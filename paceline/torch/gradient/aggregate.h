// DataParallelOptions::aggregate: who averages the gradients.
#pragma once

#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/job/job.h"
#include "paceline/torch/replica/replica.h"

namespace paceline::parallel {

// The job whose servers average the gradients of these ranks; null: the ranks do it. THROWS Error
// (misuse): a word that is none, or options, parameters or ranks with which servers do not go.
Job* job_with_servers(const ModelParts& parts, const Communicator& group, Job* job,
                      const DataParallelOptions& options);

}  // namespace paceline::parallel
