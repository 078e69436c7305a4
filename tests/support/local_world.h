// Runs a body once for each rank, each in a thread of its own, in a world inside this process.
#pragma once

#include <functional>

#include "paceline/core/collective/collective.h"
#include "paceline/core/job/job.h"
#include "paceline/core/job/local_world.h"

namespace paceline::test {

// Returns when all ranks have ended; throws the exception of the first rank that failed. A rank
// that throws ends its Job, so others that wait for it fail too: only the first exception is kept.
void run_ranks(int world_size, const std::function<void(Job&)>& body);
void run_ranks(int world_size, const LocalWorldOptions& options,
               const std::function<void(Job&)>& body);

}  // namespace paceline::test
